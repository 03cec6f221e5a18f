/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads blocks from the tier for sequences.
 *
 * A waiting sequence asks the tier for blocks that the pool does not have. The sequence is admitted
 * when the tier's answer arrives, or when a longer wait would be noticeable. If it is admitted
 * without the answer, it starts to compute, and an answer that comes later is used before the next
 * step. The loaded bytes are written directly to the sequence's blocks while other sequences
 * compute. If the CPU cannot write to the device's block memory, the bytes are written to a staging
 * buffer of a few blocks, from which the device copies them. Blocks that do not arrive, or arrive
 * too slowly, are computed. The engine asks for blocks and loads them only if loading is faster
 * than computing, according to recent measurements of both.
 */
#include "core/clock.h"
#include "sched/sched.h"

/* Limits of the wait for an answer: a share of the time of computing the blocks, and microseconds.
 * The lower limit applies. */
#define WAIT_SHARE    0.03
#define MAX_WAIT_USEC 300000.0
/* A load may take this many microseconds longer than computing its blocks. */
#define STALL_USEC 50000
/* One of TRY_ONE_IN loads that seem slower than computing is tried anyway, to measure the speed of
 * loading again. */
#define TRY_ONE_IN     64
#define MAX_STALL_USEC 1e12

static uint32_t block_tokens(const struct sched *s)
{
    return kv_pool_block_tokens(s->runner->pool);
}

/* Returns the expected microseconds of computing one block of a prompt. */
static double block_usec(const struct sched *s)
{
    double tok_s = s->fetching.first_tok_s;

    if (s->prefill_usec > 0)
        tok_s = s->prefill_tokens * 1e6 / s->prefill_usec;
    return block_tokens(s) * 1e6 / tok_s;
}

/* Returns whether to load @n_blocks blocks because that seems faster than computing their @n_tokens
 * tokens. Also returns true for one in TRY_ONE_IN loads that seem slower. */
static bool is_worth_it(struct sched *s, uint32_t n_blocks, uint32_t n_tokens)
{
    const double load = tier_load_usec(s->tier) * n_blocks * s->fetching.margin;

    if (load <= block_usec(s) * n_tokens / block_tokens(s))
        return true;
    return s->fetching.n_refused++ % TRY_ONE_IN == TRY_ONE_IN - 1;
}

/* Returns how many of the sequence's first blocks may be loaded, and sets *names to their names. */
static uint32_t n_useful(const struct seq *seq, const struct kv_name **names)
{
    uint32_t n;

    *names = seq_names(seq, &n);
    return *names && !seq_needs_rows(seq) ? n : 0;
}

/* Asks the tier for the sequence's blocks from @first on, if loading them seems faster than
 * computing. */
static void ask_tier(struct sched *s, struct seq *seq, uint32_t first)
{
    const struct kv_name *names;
    uint32_t n = n_useful(seq, &names);
    double wait;

    if (n <= first || !tier_is_ready(s->tier))
        return;
    n = MIN(n - first, (uint32_t)INF_TIER_MAX_NAMES);
    if (!is_worth_it(s, n, n * block_tokens(s)))
        return;
    seq->fetch = tier_ask(s->tier, seq->req->owner, names + first, n);
    seq->fetch_first = first;
    seq->n_asked = n;
    wait = MIN(block_usec(s) * n * WAIT_SHARE, MAX_WAIT_USEC);
    seq->fetch_until_usec = clock_usec() + (uint64_t)wait;
}

void sched_ask(struct sched *s, struct seq *seq)
{
    const struct kv_name *names;
    uint32_t n;

    /* Only the first choice (answer) of a request asks; the other choices share its blocks. */
    if (!s->tier || seq->fetch || (seq->choice > 0 && !seq->started))
        return;
    n = n_useful(seq, &names);
    if (n > 0)
        ask_tier(s, seq, kv_pool_n_known(s->runner->pool, names, n));
}

/* Makes the engine wait for the tier, at most until the time @usec, if the engine has nothing to
 * compute. */
static void await_until(struct sched *s, uint64_t usec)
{
    if (s->await_usec == 0 || usec < s->await_usec)
        s->await_usec = usec;
}

bool sched_awaits_answer(struct sched *s, const struct seq *seq)
{
    uint32_t n_found, n_loaded;

    if (!seq->fetch || clock_usec() >= seq->fetch_until_usec ||
        fetch_look(seq->fetch, &n_found, &n_loaded) != FETCH_ASKED)
        return false;
    await_until(s, seq->fetch_until_usec);
    return true;
}

/* Allocates the staging buffer if the CPU cannot write to the device's block memory. Returns false
 * if the allocation fails. */
static bool have_landing(struct sched *s, struct seq *seq, uint32_t first, uint32_t n)
{
    const uint64_t size = kv_pool_block_bytes(s->runner->pool);

    if (kv_table_bytes(&seq->table, first))
        return true;
    assert(!seq->landing);
    seq->n_landing = (uint32_t)MIN(MAX(s->fetching.landing / size, UINT64_C(1)), (uint64_t)n);
    seq->landing = malloc(seq->n_landing * size);
    return seq->landing;
}

/* Starts to load the sequence's blocks from @first on: all of them, or as many as the staging
 * buffer holds. */
static bool load_part(struct sched *s, struct seq *seq, uint32_t first)
{
    const uint64_t size = kv_pool_block_bytes(s->runner->pool);
    const uint32_t n = seq->load_end - first;
    _cleanup_free_ void **to = NULL;

    seq->load_first = first;
    seq->n_load = seq->landing ? MIN(n, seq->n_landing) : n;
    to = NEW(void *, seq->n_load);
    if (!to)
        return false;
    for (uint32_t i = 0; i < seq->n_load; i++)
        to[i] = seq->landing ? seq->landing + i * size : kv_table_bytes(&seq->table, first + i);
    seq->fetch_until_usec = clock_usec();
    fetch_load(seq->fetch, first - seq->fetch_first, seq->n_load, to,
               block_usec(s) / MAX(s->fetching.margin, 1e-9));
    return true;
}

/* Starts to load the sequence's blocks up to the block before @end; the first of them is the block
 * of the next token that is not in the KV cache. Returns false if computing seems faster, or if
 * there is not enough memory. */
static bool begin_load(struct sched *s, struct seq *seq, uint32_t end)
{
    const uint32_t first = seq->n_kv / block_tokens(s);

    if (end <= first || !is_worth_it(s, end - first, end * block_tokens(s) - seq->n_kv) ||
        !have_landing(s, seq, first, end - first))
        return false;
    seq->load_end = end;
    seq->n_kv = first * block_tokens(s);
    seq->loading = load_part(s, seq, first);
    return seq->loading;
}

static void take_answer(struct sched *s, struct seq *seq, uint32_t n_found)
{
    const uint32_t first = seq->n_kv / block_tokens(s);

    if (first < seq->fetch_first) {
        /* Blocks that the pool had when the sequence asked the tier have been evicted since. So the
         * sequence asks again, now for these blocks as well. */
        seq_stop_fetch(seq);
        ask_tier(s, seq, first);
    } else if (!begin_load(s, seq, seq->fetch_first + n_found)) {
        seq_stop_fetch(seq);
    }
}

/* Returns the time by which the next block should arrive in a load of which @n_loaded blocks have
 * arrived. */
static uint64_t load_due(const struct sched *s, const struct seq *seq, uint32_t n_loaded)
{
    const double usec = block_usec(s) * (n_loaded + 2) / MAX(s->fetching.margin, 1e-9);

    return seq->fetch_until_usec + STALL_USEC + (uint64_t)MIN(usec, MAX_STALL_USEC);
}

/* Ends a load: the tokens of the blocks before @end are in the KV cache now, and these blocks get
 * their names. */
static void end_load(struct sched *s, struct seq *seq, uint32_t end)
{
    const bool more = seq->fetch_first + seq->n_asked == end;

    seq_stop_fetch(seq);
    /* The last token is always computed, because its logits are needed. */
    seq->n_kv = MIN(end * block_tokens(s), seq->n_tokens - 1);
    seq->n_stored = MAX(seq->n_stored, end);
    seq_note_kv(seq, false);
    sched_name_blocks(s, seq);
    if (more)
        ask_tier(s, seq, end);
}

/* Imports the @n loaded blocks from the staging buffer, if there is one, into the device. Returns
 * how many of the blocks the device has now. */
static uint32_t take_landed(struct sched *s, struct seq *seq, uint32_t n)
{
    const uint64_t size = kv_pool_block_bytes(s->runner->pool);

    for (uint32_t i = 0; seq->landing && i < n; i++)
        if (kv_table_import(&seq->table, seq->load_first + i, seq->landing + i * size) < 0)
            return i;
    return n;
}

/* Takes the @n_loaded blocks that have arrived of the part that was being loaded; the rest of this
 * part will not arrive. Loads the next part, or ends the load. @n_found may be lower than before,
 * because the tier may have dropped blocks. */
static void take_blocks(struct sched *s, struct seq *seq, uint32_t n_found, uint32_t n_loaded)
{
    const uint32_t n = take_landed(s, seq, n_loaded), end = seq->load_first + n;

    seq->load_end = MIN(seq->load_end, seq->fetch_first + n_found);
    if (n < seq->n_load || end >= seq->load_end || !load_part(s, seq, end))
        end_load(s, seq, end);
}

void sched_fetch(struct sched *s)
{
    for (uint32_t i = 0; i < s->n_running; i++) {
        struct seq *seq = s->running[i];
        uint32_t n_found, n_loaded;
        enum fetch_state state;

        if (!seq->fetch)
            continue;
        state = fetch_look(seq->fetch, &n_found, &n_loaded);
        if (state == FETCH_FOUND)
            take_answer(s, seq, n_found);
        else if (state == FETCH_LOADED ||
                 (state == FETCH_LOADING && clock_usec() >= load_due(s, seq, n_loaded)))
            take_blocks(s, seq, n_found, n_loaded);
        if (seq->loading)
            await_until(s, load_due(s, seq, n_loaded));
    }
}
