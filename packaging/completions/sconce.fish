# SPDX-License-Identifier: Apache-2.0
# fish completion for sconce(1)

function __sconce_models
    set -l words (commandline -opc)
    set -l args
    for i in (seq 3 (count $words))
        if contains -- $words[$i] --models --config; and test $i -lt (count $words)
            set -a args $words[$i] $words[(math $i + 1)]
        end
    end
    sconce list --names $args 2>/dev/null
end

function __sconce_verb
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

function __sconce_word
    __fish_seen_subcommand_from $argv
end

complete -c sconce -f
complete -c sconce -n __fish_use_subcommand -s h -l help -d 'show the verbs'
complete -c sconce -n __fish_use_subcommand -s V -l version -d 'show the version'
complete -c sconce -n __fish_use_subcommand -a run -d 'talk to a model, or get one answer'
complete -c sconce -n __fish_use_subcommand -a embed -d 'convert texts, or the lines of a file, to vectors'
complete -c sconce -n __fish_use_subcommand -a transcribe -d 'convert speech from files or a microphone to text'
complete -c sconce -n __fish_use_subcommand -a list -d 'list the installed models'
complete -c sconce -n __fish_use_subcommand -a info -d 'show a model, or the compute devices'
complete -c sconce -n __fish_use_subcommand -a serve -d 'run the services in the foreground, without systemd'
complete -c sconce -n __fish_use_subcommand -a status -d 'show what runs, and how fast'
complete -c sconce -n __fish_use_subcommand -a cache -d 'inspect and clean the KV cache on disk'
complete -c sconce -n __fish_use_subcommand -a setup -d 'set up sockets, TCP, API keys, GPUs and models under systemd'
complete -c sconce -n __fish_use_subcommand -a doctor -d 'find out why sconce does not work, and how to repair it'
complete -c sconce -n __fish_use_subcommand -a policy -d 'show what each service may do'
complete -c sconce -n __fish_use_subcommand -a tokenize -d 'convert text to token ids'
complete -c sconce -n __fish_use_subcommand -a render -d 'print the prompt that a chat template makes'
complete -c sconce -n __fish_use_subcommand -a bench -d 'measure how fast a model runs on this machine'

complete -c sconce -n '__sconce_verb run' -s s -l system -x -d 'system message'
complete -c sconce -n '__sconce_verb run' -s n -l max-tokens -x -d 'longest answer in tokens'
complete -c sconce -n '__sconce_verb run' -l temperature -x -d '0 always takes the most likely token'
complete -c sconce -n '__sconce_verb run' -l top-p -x -d 'keep the most likely tokens up to this sum of probabilities'
complete -c sconce -n '__sconce_verb run' -l top-k -x -d 'keep the N most likely tokens'
complete -c sconce -n '__sconce_verb run' -l min-p -x -d 'drop tokens below this share of the most likely one'
complete -c sconce -n '__sconce_verb run' -l repetition-penalty -x -d 'above 1 makes repetitions less likely'
complete -c sconce -n '__sconce_verb run' -l seed -x -d 'give the same answer each time'
complete -c sconce -n '__sconce_verb run' -s c -l context -x -d 'size of the context in tokens'
complete -c sconce -n '__sconce_verb run' -s t -l threads -x -d 'compute threads'
complete -c sconce -n '__sconce_verb run' -l device -xa 'auto cpu vulkan' -d 'device that computes'
complete -c sconce -n '__sconce_verb run' -l isa -xa 'ref avx2 avxvnni avx512 avx512fp16 neon dotprod' -d 'highest instruction set'
complete -c sconce -n '__sconce_verb run' -l kv-type -xa 'f32 f16 bf16 q8_0' -d 'number format of the KV cache'
complete -c sconce -n '__sconce_verb run' -l session -x -d 'save the conversation under this name'
complete -c sconce -n '__sconce_verb run' -l resume -d 'continue a saved conversation'
complete -c sconce -n '__sconce_verb run' -l sessions -d 'list the saved conversations'
complete -c sconce -n '__sconce_verb run' -l json -d 'with --sessions: print JSON'
complete -c sconce -n '__sconce_verb run' -l raw -d 'continue the prompt without the chat template'
complete -c sconce -n '__sconce_verb run' -s v -l verbose -d 'print tokens and speed after each answer'
complete -c sconce -n '__sconce_verb run' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb run' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb run' -s h -l help -d 'show a short help text'
complete -c sconce -n '__sconce_verb run' -Fa '(__sconce_models)'

complete -c sconce -n '__sconce_verb embed' -F
complete -c sconce -n '__sconce_verb embed' -s m -l model -xa '(__sconce_models)' -d 'the model'
complete -c sconce -n '__sconce_verb embed' -s o -l output -rF -d 'NumPy array, or lines of JSON'
complete -c sconce -n '__sconce_verb embed' -l anew -d 'start the output from the beginning'
complete -c sconce -n '__sconce_verb embed' -s b -l batch -x -d 'texts in one request'
complete -c sconce -n '__sconce_verb embed' -l task -x -d 'task adapter of the model'
complete -c sconce -n '__sconce_verb embed' -l token-vectors -d 'one vector for each token'
complete -c sconce -n '__sconce_verb embed' -l prompt-name -xa 'query document' -d 'prompt before each text'
complete -c sconce -n '__sconce_verb embed' -l dimensions -x -d 'only the first numbers of each vector'
complete -c sconce -n '__sconce_verb embed' -l truncate -d 'cut texts that are too long'
complete -c sconce -n '__sconce_verb embed' -l jsonl -d 'lines are JSON'
complete -c sconce -n '__sconce_verb embed' -l field -x -d 'member of objects that holds the text'
complete -c sconce -n '__sconce_verb embed' -l address -x -d 'address of the gateway'
complete -c sconce -n '__sconce_verb embed' -l key -x -d 'API key'
complete -c sconce -n '__sconce_verb embed' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb embed' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb embed' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb transcribe' -F
complete -c sconce -n '__sconce_verb transcribe' -s f -l format -xa 'txt srt vtt json' -d 'output format'
complete -c sconce -n '__sconce_verb transcribe' -s m -l model -xa '(__sconce_models)' -d 'the model'
complete -c sconce -n '__sconce_verb transcribe' -l language -x -d 'spoken language'
complete -c sconce -n '__sconce_verb transcribe' -l translate -d 'translate to English'
complete -c sconce -n '__sconce_verb transcribe' -l words -d 'add times of words'
complete -c sconce -n '__sconce_verb transcribe' -l prompt -x -d 'text that precedes the speech'
complete -c sconce -n '__sconce_verb transcribe' -l hotwords -x -d 'words that are likely to occur'
complete -c sconce -n '__sconce_verb transcribe' -l vad -d 'skip silence, if the service has the weights for it'
complete -c sconce -n '__sconce_verb transcribe' -l mic -d 'record until Ctrl-C'
complete -c sconce -n '__sconce_verb transcribe' -l seconds -x -d 'record for this number of seconds'
complete -c sconce -n '__sconce_verb transcribe' -l address -x -d 'address of the gateway'
complete -c sconce -n '__sconce_verb transcribe' -l key -x -d 'API key'
complete -c sconce -n '__sconce_verb transcribe' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb transcribe' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb transcribe' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb list' -l json -d 'print a JSON array'
complete -c sconce -n '__sconce_verb list' -l names -d 'print only names and aliases'
complete -c sconce -n '__sconce_verb list' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb list' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb list' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb info' -l devices -d 'compute devices of this machine'
complete -c sconce -n '__sconce_verb info' -l json -d 'print a JSON object'
complete -c sconce -n '__sconce_verb info' -l meta -d 'add all metadata of the file'
complete -c sconce -n '__sconce_verb info' -l template -d 'print only the chat template'
complete -c sconce -n '__sconce_verb info' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb info' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb info' -s h -l help -d 'show a short help text'
complete -c sconce -n '__sconce_verb info' -Fa '(__sconce_models)'

complete -c sconce -n '__sconce_verb serve' -l listen -x -d 'address for clients'
complete -c sconce -n '__sconce_verb serve' -l runtime-dir -xa '(__fish_complete_directories)' -d 'directory for the sockets of the services'
complete -c sconce -n '__sconce_verb serve' -l device -xa 'auto cpu vulkan' -d 'device that computes'
complete -c sconce -n '__sconce_verb serve' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb serve' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb serve' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb status' -l address -x -d 'use this gateway'
complete -c sconce -n '__sconce_verb status' -l key -x -d 'API key'
complete -c sconce -n '__sconce_verb status' -l json -d 'print a JSON object'
complete -c sconce -n '__sconce_verb status' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb cache' -l tenants -d 'ls: by API key'
complete -c sconce -n '__sconce_verb cache' -l sessions -d 'ls: by session'
complete -c sconce -n '__sconce_verb cache' -l model -xa '(__sconce_models)' -d 'purge: only blocks of this model'
complete -c sconce -n '__sconce_verb cache' -l tenant -x -d 'purge: only blocks of this API key'
complete -c sconce -n '__sconce_verb cache' -l session -x -d 'purge: only blocks of this session'
complete -c sconce -n '__sconce_verb cache' -l older-than -x -d 'purge: only blocks not used for this time'
complete -c sconce -n '__sconce_verb cache' -l all -d 'purge: everything'
complete -c sconce -n '__sconce_verb cache' -l socket -rF -d 'socket of the service'
complete -c sconce -n '__sconce_verb cache' -l json -d 'print JSON'
complete -c sconce -n '__sconce_verb cache' -s h -l help -d 'show a short help text'
complete -c sconce -n '__sconce_verb cache; and not __sconce_word status ls verify purge' -a 'status ls verify purge'

complete -c sconce -n '__sconce_verb setup' -l user -d 'your services'
complete -c sconce -n '__sconce_verb setup' -l system -d 'services of the machine'
complete -c sconce -n '__sconce_verb setup' -l port -x -d 'the TCP port'
complete -c sconce -n '__sconce_verb setup' -l rights -x -a 'infer manage observe' -d 'rights of the key'
complete -c sconce -n '__sconce_verb setup' -l off -d 'undo the change'
complete -c sconce -n '__sconce_verb setup' -l dry-run -d 'only print what would be done'
complete -c sconce -n '__sconce_verb setup' -l no-start -d 'only change files'
complete -c sconce -n '__sconce_verb setup' -l root -xa '(__fish_complete_directories)' -d 'change the system in this directory'
complete -c sconce -n '__sconce_verb setup' -s h -l help -d 'show a short help text'
complete -c sconce -n '__sconce_verb setup; and not __sconce_word tcp key access gpu models' -a 'tcp key access gpu models'
complete -c sconce -n '__sconce_verb setup; and __sconce_word access' -a 'keys open group'
complete -c sconce -n '__sconce_verb setup; and __sconce_word models' -a '(__fish_complete_directories)'

complete -c sconce -n '__sconce_verb doctor' -l user -d 'your services'
complete -c sconce -n '__sconce_verb doctor' -l system -d 'services of the machine'
complete -c sconce -n '__sconce_verb doctor' -l deep -d 'also send a request to a model'
complete -c sconce -n '__sconce_verb doctor' -l json -d 'print a JSON object'
complete -c sconce -n '__sconce_verb doctor' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb policy' -l phase -xa 'start serve' -d 'until READY, or after it'
complete -c sconce -n '__sconce_verb policy' -l arch -xa 'x86-64 arm64' -d 'the filter of this architecture'
complete -c sconce -n '__sconce_verb policy' -l json -d 'print JSON'
complete -c sconce -n '__sconce_verb policy' -s h -l help -d 'show a short help text'
complete -c sconce -n '__sconce_verb policy; and not __sconce_word check explain' -a 'check explain'
complete -c sconce -n '__sconce_verb policy; and __sconce_word check explain' -a 'gateway chat embed audio cache chat-gpu chat-lavapipe decoder'

complete -c sconce -n '__sconce_verb tokenize' -s m -l model -rFa '(__sconce_models)' -d 'model whose tokenizer is used'
complete -c sconce -n '__sconce_verb tokenize' -s f -l file -rF -d 'read the text from this file'
complete -c sconce -n '__sconce_verb tokenize' -l json -d 'print the ids as a JSON array'
complete -c sconce -n '__sconce_verb tokenize' -l pieces -d 'print a line for each token'
complete -c sconce -n '__sconce_verb tokenize' -l no-special -d 'omit the tokens around a text'
complete -c sconce -n '__sconce_verb tokenize' -l no-parse-special -d 'treat names of special tokens as ordinary text'
complete -c sconce -n '__sconce_verb tokenize' -l decode -d 'the arguments are ids'
complete -c sconce -n '__sconce_verb tokenize' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb tokenize' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb tokenize' -s h -l help -d 'show a short help text'

complete -c sconce -n '__sconce_verb render' -s m -l model -rFa '(__sconce_models)' -d 'a model or a template'
complete -c sconce -n '__sconce_verb render' -l no-generation-prompt -d 'end after the last message'
complete -c sconce -n '__sconce_verb render' -l tools -rF -d 'a JSON array of tools'
complete -c sconce -n '__sconce_verb render' -l set -x -d 'set a variable of the template'
complete -c sconce -n '__sconce_verb render' -l json -d 'print the prompt as a JSON string'
complete -c sconce -n '__sconce_verb render' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb render' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb render' -s h -l help -d 'show a short help text'
complete -c sconce -n '__sconce_verb render' -F

complete -c sconce -n '__sconce_verb bench' -s m -l model -rFa '(__sconce_models)' -d 'model to measure'
complete -c sconce -n '__sconce_verb bench' -s p -x -d 'prompt tokens'
complete -c sconce -n '__sconce_verb bench' -s n -x -d 'tokens to generate'
complete -c sconce -n '__sconce_verb bench' -s d -l depth -x -d 'tokens in the context before those'
complete -c sconce -n '__sconce_verb bench' -s t -l threads -x -d 'compute threads'
complete -c sconce -n '__sconce_verb bench' -s r -l repeat -x -d 'runs of each part'
complete -c sconce -n '__sconce_verb bench' -s b -l batch -x -d 'rows of one step'
complete -c sconce -n '__sconce_verb bench' -l streams -x -d 'answers generated at the same time'
complete -c sconce -n '__sconce_verb bench' -l device -xa 'auto cpu vulkan' -d 'device that computes'
complete -c sconce -n '__sconce_verb bench' -l isa -xa 'ref avx2 avxvnni avx512 avx512fp16 neon dotprod' -d 'highest instruction set'
complete -c sconce -n '__sconce_verb bench' -l kv-type -xa 'f32 f16 bf16 q8_0' -d 'number format of the KV cache'
complete -c sconce -n '__sconce_verb bench' -l membw -d 'measure the memory bandwidth'
complete -c sconce -n '__sconce_verb bench' -l peak -d 'measure the peak of int8 products'
complete -c sconce -n '__sconce_verb bench' -l json -d 'print one line of JSON'
complete -c sconce -n '__sconce_verb bench' -l models -xa '(__fish_complete_directories)' -d 'search this directory for models first'
complete -c sconce -n '__sconce_verb bench' -l config -rF -d 'read only this configuration file'
complete -c sconce -n '__sconce_verb bench' -s h -l help -d 'show a short help text'
