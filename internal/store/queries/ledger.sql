-- name: ActAs :exec
-- Tells the triggers of the ledger who changes something that has no column for it, in this transaction.
SELECT set_config('rgpt.by', @name::text, true);

-- name: LedgerEntries :many
-- Entries after a number, in order. Without filters, so that every plan of it is a scan of the index.
SELECT seq, at, actor, name, action, object, run_id, details, digest, previous, hash
FROM orchestrator_ledger WHERE seq > @after ORDER BY seq LIMIT @most::int;

-- name: LastLedgerEntries :many
-- The last entries, newest first.
SELECT seq, at, actor, name, action, object, run_id, details, digest, previous, hash
FROM orchestrator_ledger
WHERE (@before::bigint = 0 OR seq < @before) AND (@run_id::bigint = 0 OR run_id = @run_id) AND (@action::text = '' OR action = @action)
  AND (@name::text = '' OR name = @name)
ORDER BY seq DESC LIMIT @most::int;

-- name: LedgerHead :one
SELECT seq, hash FROM orchestrator_ledger_head;

-- name: SaveCheckpoint :exec
INSERT INTO orchestrator_ledger_checkpoints (seq, hash, at, key, signature, artifact)
VALUES (@seq, @hash, @at, @key, @signature, @artifact) ON CONFLICT (seq) DO NOTHING;

-- name: Checkpoints :many
SELECT seq, hash, at, key, signature, artifact FROM orchestrator_ledger_checkpoints ORDER BY seq;

-- name: RemoveLedgerDetails :one
-- Removes the details of the oldest entries before a time, and notes that in the ledger. The entries and
-- their digests remain.
SELECT rgpt_ledger_remove_details(@before::timestamptz, @most::int)::bigint AS removed;
