-- +goose Up

-- Plans that people or deliberations made are judged too.
ALTER TABLE orchestrator_gate_verdicts DROP CONSTRAINT orchestrator_gate_verdicts_stage_check;
ALTER TABLE orchestrator_gate_verdicts ADD CONSTRAINT orchestrator_gate_verdicts_stage_check CHECK (stage IN ('plan', 'step', 'repair', 'release'));

-- +goose Down
DELETE FROM orchestrator_gate_verdicts WHERE stage = 'plan';
ALTER TABLE orchestrator_gate_verdicts DROP CONSTRAINT orchestrator_gate_verdicts_stage_check;
ALTER TABLE orchestrator_gate_verdicts ADD CONSTRAINT orchestrator_gate_verdicts_stage_check CHECK (stage IN ('step', 'repair', 'release'));
