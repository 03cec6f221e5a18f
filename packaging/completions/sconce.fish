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
complete -c sconce -n __fish_use_subcommand -a run -d 'talk to a model, or answer one prompt'
complete -c sconce -n __fish_use_subcommand -a embed -d 'vectors of texts, or of the lines of a file'
complete -c sconce -n __fish_use_subcommand -a transcribe -d 'the text of speech, of files or of a microphone'
complete -c sconce -n __fish_use_subcommand -a list -d 'the models that are installed'
complete -c sconce -n __fish_use_subcommand -a info -d 'what a model is, or what computes'
complete -c sconce -n __fish_use_subcommand -a serve -d 'start the services here, without systemd'
complete -c sconce -n __fish_use_subcommand -a status -d 'what runs, and how fast'
complete -c sconce -n __fish_use_subcommand -a cache -d 'what is kept on disk of prompts that were computed'
complete -c sconce -n __fish_use_subcommand -a setup -d 'open and close doors under systemd'
complete -c sconce -n __fish_use_subcommand -a doctor -d 'find out what does not work, and how to mend it'
complete -c sconce -n __fish_use_subcommand -a policy -d 'what each service may ask of the kernel'
complete -c sconce -n __fish_use_subcommand -a tokenize -d 'the token ids of a text'
complete -c sconce -n __fish_use_subcommand -a render -d 'the prompt that a chat template makes'
complete -c sconce -n __fish_use_subcommand -a bench -d 'how fast a model runs on this machine'

complete -c sconce -n '__sconce_verb run' -s s -l system -x -d 'what the model is told first'
complete -c sconce -n '__sconce_verb run' -s n -l max-tokens -x -d 'longest answer'
complete -c sconce -n '__sconce_verb run' -l temperature -x -d '0 is greedy'
complete -c sconce -n '__sconce_verb run' -l top-p -x -d 'keep the likeliest tokens up to this probability'
complete -c sconce -n '__sconce_verb run' -l top-k -x -d 'keep the N likeliest tokens'
complete -c sconce -n '__sconce_verb run' -l min-p -x -d 'drop tokens below this share of the likeliest'
complete -c sconce -n '__sconce_verb run' -l repetition-penalty -x -d 'above 1 discourages what was just said'
complete -c sconce -n '__sconce_verb run' -l seed -x -d 'the same answer each time'
complete -c sconce -n '__sconce_verb run' -s c -l context -x -d 'tokens that the conversation may hold'
complete -c sconce -n '__sconce_verb run' -s t -l threads -x -d 'threads'
complete -c sconce -n '__sconce_verb run' -l device -xa 'auto cpu vulkan' -d 'what computes'
complete -c sconce -n '__sconce_verb run' -l isa -xa 'ref avx2 avxvnni avx512 avx512fp16 neon dotprod' -d 'highest instruction set'
complete -c sconce -n '__sconce_verb run' -l kv-type -xa 'f32 f16 bf16 q8_0' -d 'numbers of the KV cache'
complete -c sconce -n '__sconce_verb run' -l session -x -d 'save the conversation under this name'
complete -c sconce -n '__sconce_verb run' -l resume -d 'go on with a conversation that was saved'
complete -c sconce -n '__sconce_verb run' -l sessions -d 'list those that were saved'
complete -c sconce -n '__sconce_verb run' -l json -d 'with --sessions, for programs'
complete -c sconce -n '__sconce_verb run' -l raw -d 'continue the prompt without the chat template'
complete -c sconce -n '__sconce_verb run' -s v -l verbose -d 'tell tokens and speed after each answer'
complete -c sconce -n '__sconce_verb run' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb run' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb run' -s h -l help -d 'show a short help'
complete -c sconce -n '__sconce_verb run' -Fa '(__sconce_models)'

complete -c sconce -n '__sconce_verb embed' -F
complete -c sconce -n '__sconce_verb embed' -s m -l model -xa '(__sconce_models)' -d 'the model'
complete -c sconce -n '__sconce_verb embed' -s o -l output -rF -d 'an array of NumPy, or lines of JSON'
complete -c sconce -n '__sconce_verb embed' -l anew -d 'begin the output again'
complete -c sconce -n '__sconce_verb embed' -s b -l batch -x -d 'texts of one request'
complete -c sconce -n '__sconce_verb embed' -l task -x -d 'that the model is adapted to'
complete -c sconce -n '__sconce_verb embed' -l token-vectors -d 'a vector of each token'
complete -c sconce -n '__sconce_verb embed' -l prompt-name -xa 'query document' -d 'of the words before each text'
complete -c sconce -n '__sconce_verb embed' -l dimensions -x -d 'so many of the first numbers'
complete -c sconce -n '__sconce_verb embed' -l truncate -d 'cut texts that are too long'
complete -c sconce -n '__sconce_verb embed' -l jsonl -d 'lines are JSON'
complete -c sconce -n '__sconce_verb embed' -l field -x -d 'of objects that holds the text'
complete -c sconce -n '__sconce_verb embed' -l address -x -d 'of the gateway'
complete -c sconce -n '__sconce_verb embed' -l key -x -d 'API key'
complete -c sconce -n '__sconce_verb embed' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb embed' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb embed' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb transcribe' -F
complete -c sconce -n '__sconce_verb transcribe' -s f -l format -xa 'txt srt vtt json' -d 'what is written'
complete -c sconce -n '__sconce_verb transcribe' -s m -l model -xa '(__sconce_models)' -d 'the model'
complete -c sconce -n '__sconce_verb transcribe' -l language -x -d 'that is spoken'
complete -c sconce -n '__sconce_verb transcribe' -l translate -d 'to English'
complete -c sconce -n '__sconce_verb transcribe' -l words -d 'times of words'
complete -c sconce -n '__sconce_verb transcribe' -l prompt -x -d 'what was said before'
complete -c sconce -n '__sconce_verb transcribe' -l hotwords -x -d 'words that are likely'
complete -c sconce -n '__sconce_verb transcribe' -l vad -d 'skip silence, where the service has weights for that'
complete -c sconce -n '__sconce_verb transcribe' -l mic -d 'record until Ctrl-C'
complete -c sconce -n '__sconce_verb transcribe' -l seconds -x -d 'record for so long'
complete -c sconce -n '__sconce_verb transcribe' -l address -x -d 'of the gateway'
complete -c sconce -n '__sconce_verb transcribe' -l key -x -d 'API key'
complete -c sconce -n '__sconce_verb transcribe' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb transcribe' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb transcribe' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb list' -l json -d 'as a JSON array'
complete -c sconce -n '__sconce_verb list' -l names -d 'names and aliases alone'
complete -c sconce -n '__sconce_verb list' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb list' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb list' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb info' -l devices -d 'what computes on this machine'
complete -c sconce -n '__sconce_verb info' -l json -d 'as a JSON object'
complete -c sconce -n '__sconce_verb info' -l meta -d 'with all metadata of the file'
complete -c sconce -n '__sconce_verb info' -l template -d 'print the chat template alone'
complete -c sconce -n '__sconce_verb info' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb info' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb info' -s h -l help -d 'show a short help'
complete -c sconce -n '__sconce_verb info' -Fa '(__sconce_models)'

complete -c sconce -n '__sconce_verb serve' -l listen -x -d 'where clients connect'
complete -c sconce -n '__sconce_verb serve' -l runtime-dir -xa '(__fish_complete_directories)' -d 'for the sockets of the services'
complete -c sconce -n '__sconce_verb serve' -l device -xa 'auto cpu vulkan' -d 'what computes'
complete -c sconce -n '__sconce_verb serve' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb serve' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb serve' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb status' -l address -x -d 'ask this gateway'
complete -c sconce -n '__sconce_verb status' -l key -x -d 'API key'
complete -c sconce -n '__sconce_verb status' -l json -d 'as a JSON object'
complete -c sconce -n '__sconce_verb status' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb cache' -l tenants -d 'by API key'
complete -c sconce -n '__sconce_verb cache' -l sessions -d 'by session'
complete -c sconce -n '__sconce_verb cache' -l model -xa '(__sconce_models)' -d 'purge: of this model alone'
complete -c sconce -n '__sconce_verb cache' -l tenant -x -d 'purge: of this API key alone'
complete -c sconce -n '__sconce_verb cache' -l session -x -d 'purge: of this session alone'
complete -c sconce -n '__sconce_verb cache' -l older-than -x -d 'purge: not used for so long'
complete -c sconce -n '__sconce_verb cache' -l all -d 'purge: everything'
complete -c sconce -n '__sconce_verb cache' -l socket -rF -d 'of the service'
complete -c sconce -n '__sconce_verb cache' -l json -d 'for programs'
complete -c sconce -n '__sconce_verb cache' -s h -l help -d 'show a short help'
complete -c sconce -n '__sconce_verb cache; and not __sconce_word status ls verify purge' -a 'status ls verify purge'

complete -c sconce -n '__sconce_verb setup' -l user -d 'your services'
complete -c sconce -n '__sconce_verb setup' -l system -d 'those of the machine'
complete -c sconce -n '__sconce_verb setup' -l port -x -d 'the TCP port'
complete -c sconce -n '__sconce_verb setup' -l rights -x -a 'infer manage observe' -d 'what the key may do'
complete -c sconce -n '__sconce_verb setup' -l off -d 'undo'
complete -c sconce -n '__sconce_verb setup' -l dry-run -d 'tell what would be done'
complete -c sconce -n '__sconce_verb setup' -l no-start -d 'change files alone'
complete -c sconce -n '__sconce_verb setup' -l root -xa '(__fish_complete_directories)' -d 'change the system in this directory'
complete -c sconce -n '__sconce_verb setup' -s h -l help -d 'show a short help'
complete -c sconce -n '__sconce_verb setup; and not __sconce_word tcp key access gpu models' -a 'tcp key access gpu models'
complete -c sconce -n '__sconce_verb setup; and __sconce_word access' -a 'keys open group'
complete -c sconce -n '__sconce_verb setup; and __sconce_word models' -a '(__fish_complete_directories)'

complete -c sconce -n '__sconce_verb doctor' -l user -d 'your services'
complete -c sconce -n '__sconce_verb doctor' -l system -d 'those of the machine'
complete -c sconce -n '__sconce_verb doctor' -l deep -d 'ask a model a question too'
complete -c sconce -n '__sconce_verb doctor' -l json -d 'as a JSON object'
complete -c sconce -n '__sconce_verb doctor' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb policy' -l phase -xa 'start serve' -d 'until READY, or from then on'
complete -c sconce -n '__sconce_verb policy' -l arch -xa 'x86-64 arm64' -d 'the filter of this architecture'
complete -c sconce -n '__sconce_verb policy' -l json -d 'for programs'
complete -c sconce -n '__sconce_verb policy' -s h -l help -d 'show a short help'
complete -c sconce -n '__sconce_verb policy; and not __sconce_word check explain' -a 'check explain'
complete -c sconce -n '__sconce_verb policy; and __sconce_word check explain' -a 'gateway chat embed audio cache chat-gpu chat-lavapipe decoder'

complete -c sconce -n '__sconce_verb tokenize' -s m -l model -rFa '(__sconce_models)' -d 'whose tokenizer'
complete -c sconce -n '__sconce_verb tokenize' -s f -l file -rF -d 'the text is in this file'
complete -c sconce -n '__sconce_verb tokenize' -l json -d 'ids as a JSON array'
complete -c sconce -n '__sconce_verb tokenize' -l pieces -d 'a line for each token'
complete -c sconce -n '__sconce_verb tokenize' -l no-special -d 'without the tokens around a text'
complete -c sconce -n '__sconce_verb tokenize' -l no-parse-special -d 'names of special tokens are letters'
complete -c sconce -n '__sconce_verb tokenize' -l decode -d 'the arguments are ids'
complete -c sconce -n '__sconce_verb tokenize' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb tokenize' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb tokenize' -s h -l help -d 'show a short help'

complete -c sconce -n '__sconce_verb render' -s m -l model -rFa '(__sconce_models)' -d 'a model or a template'
complete -c sconce -n '__sconce_verb render' -l no-generation-prompt -d 'end after the last message'
complete -c sconce -n '__sconce_verb render' -l tools -rF -d 'a JSON array of tools'
complete -c sconce -n '__sconce_verb render' -l set -x -d 'a variable of the template'
complete -c sconce -n '__sconce_verb render' -l json -d 'the prompt as a JSON string'
complete -c sconce -n '__sconce_verb render' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb render' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb render' -s h -l help -d 'show a short help'
complete -c sconce -n '__sconce_verb render' -F

complete -c sconce -n '__sconce_verb bench' -s m -l model -rFa '(__sconce_models)' -d 'what to measure'
complete -c sconce -n '__sconce_verb bench' -s p -x -d 'tokens of the prompt'
complete -c sconce -n '__sconce_verb bench' -s n -x -d 'tokens to generate'
complete -c sconce -n '__sconce_verb bench' -s d -l depth -x -d 'tokens in the context before'
complete -c sconce -n '__sconce_verb bench' -s t -l threads -x -d 'threads'
complete -c sconce -n '__sconce_verb bench' -s r -l repeat -x -d 'runs of each'
complete -c sconce -n '__sconce_verb bench' -s b -l batch -x -d 'rows of one step'
complete -c sconce -n '__sconce_verb bench' -l streams -x -d 'answers at the same time'
complete -c sconce -n '__sconce_verb bench' -l device -xa 'auto cpu vulkan' -d 'what computes'
complete -c sconce -n '__sconce_verb bench' -l isa -xa 'ref avx2 avxvnni avx512 avx512fp16 neon dotprod' -d 'highest instruction set'
complete -c sconce -n '__sconce_verb bench' -l kv-type -xa 'f32 f16 bf16 q8_0' -d 'numbers of the KV cache'
complete -c sconce -n '__sconce_verb bench' -l membw -d 'how fast memory is read'
complete -c sconce -n '__sconce_verb bench' -l peak -d 'how fast int8 products can be'
complete -c sconce -n '__sconce_verb bench' -l json -d 'as one line of JSON'
complete -c sconce -n '__sconce_verb bench' -l models -xa '(__fish_complete_directories)' -d 'look for models here first'
complete -c sconce -n '__sconce_verb bench' -l config -rF -d 'read this configuration file alone'
complete -c sconce -n '__sconce_verb bench' -s h -l help -d 'show a short help'
