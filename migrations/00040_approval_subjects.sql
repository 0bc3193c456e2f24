-- +goose Up

-- Every subject that a person was asked about has its own row: an approval of one is not lost when another
-- is asked about.
ALTER TABLE orchestrator_approvals DROP CONSTRAINT orchestrator_approvals_pkey;
ALTER TABLE orchestrator_approvals ADD PRIMARY KEY (run_id, id, subject);
-- What was approved, if it differs from what was asked about: a plan that the person edited.
ALTER TABLE orchestrator_approvals ADD COLUMN decided_subject TEXT NOT NULL DEFAULT '';
-- The policy gate's verdict that asks. 0: none.
ALTER TABLE orchestrator_approvals ADD COLUMN verdict_id BIGINT NOT NULL DEFAULT 0;

-- The changed files that were judged: the first ones, and the number of all.
ALTER TABLE orchestrator_gate_verdicts ADD COLUMN files JSONB NOT NULL DEFAULT '[]';
ALTER TABLE orchestrator_gate_verdicts ADD COLUMN files_total INT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE orchestrator_gate_verdicts DROP COLUMN files_total;
ALTER TABLE orchestrator_gate_verdicts DROP COLUMN files;
ALTER TABLE orchestrator_approvals DROP COLUMN verdict_id;
ALTER TABLE orchestrator_approvals DROP COLUMN decided_subject;
ALTER TABLE orchestrator_approvals DROP CONSTRAINT orchestrator_approvals_pkey;
DELETE FROM orchestrator_approvals a USING orchestrator_approvals n
WHERE n.run_id = a.run_id AND n.id = a.id AND (n.created_at, n.subject) > (a.created_at, a.subject);
ALTER TABLE orchestrator_approvals ADD PRIMARY KEY (run_id, id);
