-- +goose Up

-- Numbers of issues, IDs of comments and hashes of commits say what happened only together with the
-- repository in which it happened, and a trigger may get another repository.
ALTER TABLE orchestrator_trigger_firings
    ADD COLUMN forge      TEXT NOT NULL DEFAULT '', -- name in the configuration; empty: it did not happen on a forge
    ADD COLUMN repository TEXT NOT NULL DEFAULT ''; -- path on the forge, in lower case

-- What a trigger read last says its repository: earlier deliveries from there count. Those from elsewhere
-- get the path in their issue's address, and no forge, so they are not taken for others.
UPDATE orchestrator_trigger_firings
SET repository = lower(regexp_replace(payload ->> 'issue', '^[^/]*//[^/]*/(.*?)(/-)?/issues/[0-9]+$', '\1'))
WHERE delivery ~ '^(issue|comment):' AND payload ->> 'issue' ~ '^[^/]*//[^/]*/.+/issues/[0-9]+$';

WITH read AS (
    SELECT name, split_part(read_for, ' ', 2) AS forge, lower(split_part(read_for, ' ', 3)) AS repository
    FROM orchestrator_triggers
)
UPDATE orchestrator_trigger_firings f
SET forge = read.forge, repository = read.repository
FROM read
WHERE f.trigger = read.name AND read.repository <> ''
  AND CASE WHEN f.delivery ~ '^(issue|comment):' THEN right('/' || f.repository, length(read.repository) + 1) = '/' || read.repository
           WHEN f.delivery LIKE 'check:%' THEN right(lower(f.payload ->> 'title'), length(read.repository) + 4) = ' of ' || read.repository
           ELSE false END;

-- trigger.Key makes these keys. A server that died while it created a run is followed by one that looks for it.
UPDATE orchestrator_runs r
SET idempotency_key = 'trigger:' || f.trigger || ':' || f.forge || '/' || f.repository || ':' || f.delivery
FROM orchestrator_trigger_firings f
WHERE f.state = 'waiting' AND f.attempts > 0 AND f.repository <> '' AND r.idempotency_key = 'trigger:' || f.trigger || ':' || f.delivery;

ALTER TABLE orchestrator_trigger_firings
    DROP CONSTRAINT orchestrator_trigger_firings_trigger_delivery_key,
    ADD CONSTRAINT orchestrator_trigger_firings_key UNIQUE (trigger, forge, repository, delivery);

-- +goose Down
DELETE FROM orchestrator_trigger_firings f USING orchestrator_trigger_firings newer
WHERE newer.trigger = f.trigger AND newer.delivery = f.delivery AND newer.id > f.id;
ALTER TABLE orchestrator_trigger_firings
    DROP CONSTRAINT orchestrator_trigger_firings_key,
    ADD UNIQUE (trigger, delivery),
    DROP COLUMN forge,
    DROP COLUMN repository;
