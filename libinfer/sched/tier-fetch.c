/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads blocks from the tier (tier 2 of the KV cache, tier.h) for sequences.
 *
 * A waiting sequence asks the tier for blocks that the pool does not have. The sequence is admitted
 * when the tier's answer arrives, or when a longer wait would be noticeable. If it is admitted
 * without the answer, it starts to compute, and a later answer is used before the step that follows
 * it. The loaded bytes are written directly to the sequence's blocks while other sequences compute.
 * If the CPU cannot write to the device's block memory, the bytes are written to a staging buffer
 * of a few blocks, from which the device copies them. Blocks that do not arrive, or arrive too
 * slowly, are computed. The engine asks for blocks and loads them only if loading is faster than
 * computing, according to recent measurements of both. A mark is a border between blocks at which
 * everything that is needed to resume computing is kept (marks.c). graph/state.h explains the
 * groups of the state, and kv/prefix.h the chains of blocks.
 */
#include "core/clock.h"
#include "sched/sched.h"

/* The wait for an answer is limited to WAIT_SHARE of the time that computing the blocks takes, and
 * to MAX_WAIT_USEC microseconds. */
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

/* Returns whether to load @n_bytes bytes because that seems faster than computing @n_tokens tokens.
 * Also returns true for one in TRY_ONE_IN loads that seem slower. */
static bool is_worth_it(struct sched *s, uint64_t n_bytes, uint32_t n_tokens)
{
    const double load = tier_load_usec(s->tier, n_bytes) * s->fetching.margin;

    if (load <= block_usec(s) * n_tokens / block_tokens(s))
        return true;
    return s->fetching.n_refused++ % TRY_ONE_IN == TRY_ONE_IN - 1;
}

/* Returns how many of the sequence's first blocks may be loaded, and sets *names to their names. If
 * computing can be resumed only at marks, the last token must come after the last loaded block,
 * because it must be computed. */
static uint32_t n_useful(const struct sched *s, const struct seq *seq, const struct kv_name **names)
{
    uint32_t n;

    *names = seq_names(seq, &n);
    if (!*names || seq_needs_rows(seq) || seq->tier_failed)
        return 0;
    return s->marks.is_plain ? n : MIN(n, (seq->n_tokens - 1) / block_tokens(s));
}

/* Returns an estimate of the bytes that must be loaded so that @n blocks of the chain need not be
 * computed. */
static uint64_t bytes_for(const struct sched *s, uint32_t n)
{
    const struct kv_layout *layout = kv_pool_layout(s->runner->pool);
    uint64_t bytes = 0;

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t size = kv_pool_group_bytes(s->runner->pool, g);

        if (layout->groups[g].rule == STATE_RECURRENT)
            bytes += size;
        else
            bytes += size * (kv_pool_last_seen(layout, g, n) -
                             kv_pool_first_seen(layout, g, n * layout->block_tokens));
    }
    return bytes;
}

/* Asks the tier for the sequence's blocks from @first on, if loading them seems faster than
 * computing. */
static void ask_tier(struct sched *s, struct seq *seq, uint32_t first)
{
    const struct kv_name *names;
    uint32_t n = n_useful(s, seq, &names);
    double wait;

    if (n <= first || !tier_is_ready(s->tier))
        return;
    n = MIN(n - first, tier_max_ask(s->tier));
    if (n == 0 || !is_worth_it(s, bytes_for(s, n), n * block_tokens(s)))
        return;
    seq->fetch = tier_ask(s->tier, seq->req->owner, names, first, n);
    seq->fetch_first = first;
    seq->n_asked = n;
    wait = MIN(block_usec(s) * n * WAIT_SHARE, MAX_WAIT_USEC);
    seq->fetch_until_usec = clock_usec() + (uint64_t)wait;
}

void sched_ask(struct sched *s, struct seq *seq)
{
    const struct kv_name *names;
    uint32_t n;

    /* Only the first choice (answer) of a request asks before it starts; the other choices at first
     * share its blocks. */
    if (!s->tier || seq->fetch || (seq->choice > 0 && !seq->started))
        return;
    n = n_useful(s, seq, &names);
    if (n > 0 && s->marks.is_plain)
        ask_tier(s, seq, kv_pool_n_known(s->runner->pool, names, n));
    else if (n > 0)
        ask_tier(s, seq,
                 kv_pool_n_usable(s->runner->pool, names, n, seq->n_tokens - 1) / block_tokens(s));
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

/* Returns the number of a found block in its group of the table. */
static uint32_t place_of(const struct sched *s, struct fetch_item item)
{
    const struct kv_layout *layout = kv_pool_layout(s->runner->pool);

    return layout->groups[item.i_group].rule == STATE_RECURRENT ? 0 : item.i;
}

static void *item_bytes(const struct sched *s, const struct seq *seq, uint32_t i)
{
    const struct fetch_item item = fetch_item(seq->fetch, i);

    return kv_table_bytes(&seq->table, item.i_group, place_of(s, item));
}

/* Allocates the staging buffer for the blocks @first … @end - 1 of the fetch's list if the CPU
 * cannot write to the device's block memory. Returns false if the allocation fails. */
static bool have_landing(struct sched *s, struct seq *seq, uint32_t first, uint32_t end)
{
    uint64_t largest = 0;

    if (kv_pool_is_writable(s->runner->pool))
        return true;
    assert(!seq->landing);
    for (uint32_t i = first; i < end; i++)
        largest = MAX(largest, fetch_bytes(seq->fetch, i, 1));
    seq->n_landing =
        MAX(MIN(s->fetching.landing, fetch_bytes(seq->fetch, first, end - first)), largest);
    seq->landing = malloc(seq->n_landing);
    return seq->landing;
}

/* Returns how many of the blocks to load from @first on, at least one, the staging buffer holds. */
static uint32_t n_landable(const struct seq *seq, uint32_t first)
{
    uint64_t left = seq->n_landing;
    uint32_t n = 0;

    while (first + n < seq->load_end && fetch_bytes(seq->fetch, first + n, 1) <= left)
        left -= fetch_bytes(seq->fetch, first + n++, 1);
    return n;
}

/* Returns the expected microseconds of the computation that one block of the load replaces. */
static double item_usec(const struct sched *s, const struct seq *seq)
{
    return block_usec(s) / block_tokens(s) * seq->load_tokens;
}

/* Starts to load blocks of the fetch's list from @first on: all of them, or as many as the staging
 * buffer holds. */
static bool load_part(struct sched *s, struct seq *seq, uint32_t first)
{
    _cleanup_free_ void **to = NULL;
    uint64_t at = 0;

    seq->load_first = first;
    seq->n_load = seq->landing ? n_landable(seq, first) : seq->load_end - first;
    to = NEW(void *, seq->n_load);
    if (!to)
        return false;
    for (uint32_t i = 0; i < seq->n_load; i++) {
        to[i] = seq->landing ? seq->landing + at : item_bytes(s, seq, first + i);
        at += fetch_bytes(seq->fetch, first + i, 1);
    }
    seq->fetch_until_usec = clock_usec();
    fetch_load(seq->fetch, first, seq->n_load, to,
               item_usec(s, seq) / MAX(s->fetching.margin, 1e-9));
    return true;
}

/* Returns the first block of the fetch's list that must be loaded, if the FULL blocks before block
 * @block of the chain are in the table. */
static uint32_t first_to_load(const struct sched *s, const struct seq *seq, uint32_t n_found,
                              uint32_t block)
{
    const struct kv_layout *layout = kv_pool_layout(s->runner->pool);

    for (uint32_t i = 0; i < n_found; i++) {
        const struct fetch_item item = fetch_item(seq->fetch, i);

        if (layout->groups[item.i_group].rule != STATE_FULL || item.i >= block)
            return i;
    }
    return n_found;
}

/* Ends an incomplete load if computing can be resumed only at marks. The state of the sequence is
 * incomplete then, so the sequence starts again with the blocks that the pool has. */
static void fail_load(struct sched *s, struct seq *seq)
{
    uint32_t i = 0;

    while (s->running[i] != seq)
        i++;
    seq->tier_failed = true;
    sched_preempt(s, i);
}

/* Starts to load the first @n_found blocks of the fetch's list, except those before the block of
 * the next token that is not in the KV cache. Returns false if computing seems faster, or if there
 * is not enough memory or too few free blocks; the sequence is then unchanged. */
static bool begin_load(struct sched *s, struct seq *seq, uint32_t n_found)
{
    const uint32_t mark = fetch_mark(seq->fetch), block = seq->n_kv / block_tokens(s);
    uint32_t first, known = block;

    if (n_found == 0 || mark <= block)
        return false;
    /* The pool may have FULL blocks that were useless to the sequence without the blocks of the
     * other groups, which are loaded now. */
    if (!s->marks.is_plain)
        known = MAX(block, kv_pool_n_known(s->runner->pool, seq->names, mark));
    first = first_to_load(s, seq, n_found, known);
    if (first == n_found ||
        !is_worth_it(s, fetch_bytes(seq->fetch, first, n_found - first),
                     mark * block_tokens(s) - seq->n_kv) ||
        !have_landing(s, seq, first, n_found) ||
        kv_table_jump(&seq->table, mark * block_tokens(s)) == KV_FULL)
        return false;
    for (uint32_t i = block; i < known; i++)
        kv_table_replace(&seq->table, &seq->names[i], i);
    seq->load_end = n_found;
    seq->load_tokens = (double)(mark - block) * block_tokens(s) / (n_found - first);
    seq->n_kv = block * block_tokens(s);
    seq->loading = load_part(s, seq, first);
    if (!seq->loading && !s->marks.is_plain)
        fail_load(s, seq);
    return seq->loading || !s->marks.is_plain;
}

static void take_answer(struct sched *s, struct seq *seq, uint32_t n_found)
{
    const uint32_t first = seq->n_kv / block_tokens(s);

    if (first < seq->fetch_first) {
        /* Some blocks that the pool had when the sequence asked the tier have been evicted
         * meanwhile. So the sequence asks again, also for these blocks. */
        seq_stop_fetch(seq);
        ask_tier(s, seq, first);
    } else if (!begin_load(s, seq, n_found)) {
        seq_stop_fetch(seq);
    }
}

/* Returns the time by which the next block should arrive in a load of which @n_loaded blocks have
 * arrived. */
static uint64_t load_due(const struct sched *s, const struct seq *seq, uint32_t n_loaded)
{
    const double usec = item_usec(s, seq) * (n_loaded + 2) / MAX(s->fetching.margin, 1e-9);

    return seq->fetch_until_usec + STALL_USEC + (uint64_t)MIN(usec, MAX_STALL_USEC);
}

/* Ends a load: the tokens before block @end are in the KV cache now, and the loaded blocks get
 * their names. */
static void end_load(struct sched *s, struct seq *seq, uint32_t end)
{
    const bool more =
        s->marks.is_plain ? seq->fetch_first + seq->n_asked == end : fetch_has_chain(seq->fetch);

    seq_stop_fetch(seq);
    /* The last token is always computed, because its logits are needed. */
    seq->n_kv = MIN(end * block_tokens(s), seq->n_tokens - 1);
    seq->n_stored = MAX(seq->n_stored, end);
    seq_note_kv(seq, false);
    sched_name_blocks(s, seq);
    if (!s->marks.is_plain && kv_table_snapshot(&seq->table, seq->names, end))
        sched_keep_mark(s, seq, end, true);
    if (more)
        ask_tier(s, seq, end);
}

/* Imports the @n loaded blocks from the staging buffer, if there is one, into the device. Returns
 * how many of the blocks the device has now. */
static uint32_t take_landed(struct sched *s, struct seq *seq, uint32_t n)
{
    uint64_t at = 0;

    for (uint32_t i = 0; seq->landing && i < n; i++) {
        const struct fetch_item item = fetch_item(seq->fetch, seq->load_first + i);

        if (kv_table_import(&seq->table, item.i_group, place_of(s, item), seq->landing + at) < 0)
            return i;
        at += fetch_bytes(seq->fetch, seq->load_first + i, 1);
    }
    return n;
}

/* Takes the blocks of the part that was being loaded. Only its first @n_loaded blocks have arrived,
 * and the rest will not arrive. Loads the next part, or ends the load. */
static void take_blocks(struct sched *s, struct seq *seq, uint32_t n_loaded)
{
    const uint32_t n = take_landed(s, seq, n_loaded), end = seq->load_first + n;

    if (n == seq->n_load && end < seq->load_end && load_part(s, seq, end))
        return;
    if (s->marks.is_plain)
        end_load(s, seq, seq->fetch_first + end);
    else if (end == seq->load_end)
        end_load(s, seq, fetch_mark(seq->fetch));
    else
        fail_load(s, seq);
}

static void fetch_for(struct sched *s, struct seq *seq)
{
    uint32_t n_found, n_loaded;
    const enum fetch_state state = fetch_look(seq->fetch, &n_found, &n_loaded);

    if (state == FETCH_FOUND)
        take_answer(s, seq, n_found);
    else if (state == FETCH_LOADED ||
             (state == FETCH_LOADING && clock_usec() >= load_due(s, seq, n_loaded)))
        take_blocks(s, seq, n_loaded);
    if (seq->loading)
        await_until(s, load_due(s, seq, n_loaded));
}

void sched_fetch(struct sched *s)
{
    uint32_t i = 0;

    while (i < s->n_running) {
        struct seq *seq = s->running[i];

        if (seq->fetch)
            fetch_for(s, seq);
        /* A failed load removes the sequence from the list. */
        i += i < s->n_running && s->running[i] == seq;
    }
}
