-- +goose Up

-- A question about something that a person has answered before is a row of its own, so no answer is lost.
ALTER TABLE orchestrator_approvals ADD COLUMN asked INT NOT NULL DEFAULT 1;
ALTER TABLE orchestrator_approvals DROP CONSTRAINT orchestrator_approvals_pkey;
ALTER TABLE orchestrator_approvals ADD PRIMARY KEY (run_id, id, subject, asked);

-- +goose Down
ALTER TABLE orchestrator_approvals DROP CONSTRAINT orchestrator_approvals_pkey;
DELETE FROM orchestrator_approvals a USING orchestrator_approvals n
WHERE n.run_id = a.run_id AND n.id = a.id AND n.subject = a.subject AND n.asked > a.asked;
ALTER TABLE orchestrator_approvals DROP COLUMN asked;
ALTER TABLE orchestrator_approvals ADD PRIMARY KEY (run_id, id, subject);
