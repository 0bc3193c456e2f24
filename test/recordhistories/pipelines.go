package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// deliberation is one way in which a pipeline of its own can go.
type deliberation struct {
	name  string
	says  string            // the scenario's answers; empty: those of its name
	set   map[string]string // of the deliberation's settings
	args  []string          // more arguments of pipeline spawn
	waits bool              // for somebody to continue it
	when  func(contract.DeliberationView) bool
	steer [][]string // commands to send then, each with its arguments after the id
	hasty bool       // it is stopped in the moment between its end and its recovery
	few   int        // signals that Temporal takes for a workflow; 0: as many as it does
}

var (
	once    = map[string]string{"iterations": "2", "recoveries": "0"}
	waiting = func(v contract.DeliberationView) bool { return v.WaitingFor == contract.UpdateContinue }
	ended   = func(v contract.DeliberationView) bool { return v.Status.Terminal() }
	stop    = [][]string{{"stop"}}
)

// thinking waits until all members that there are think, in a status.
func thinking(s contract.PipelineStatus) func(contract.DeliberationView) bool {
	return func(v contract.DeliberationView) bool {
		return v.Status == s && !slices.ContainsFunc(v.Members, func(m contract.MemberView) bool { return m.Status != contract.MemberThinking })
	}
}

var deliberations = []deliberation{
	{name: "votes"},
	{name: "verdict"},
	{name: "validated"},
	{name: "forced", says: "votes", args: []string{"--gamma"}},
	{name: "silent", set: map[string]string{"recoveries": "0"}},
	{name: "quarrel"},
	{name: "decomposed"},
	{name: "late-opening", set: map[string]string{"opening_timeout": "1s"}},
	{name: "stopped-running", when: thinking(contract.PipelineRunning), steer: stop},
	{name: "stopped-waiting", waits: true, when: waiting, steer: stop},
	{name: "stopped-exchange", says: "asleep", when: thinking(contract.PipelineOrchestrating), steer: stop},
	{name: "expired-continue", waits: true, set: map[string]string{"continue_wait": "1s"}},
	{name: "steered", waits: true, when: waiting, steer: [][]string{{"revoke", "beta", "--reason", "it rambles"}, {"continue", "--model", "scripted/other"}}},
	{name: "iteration-limit", set: once},
	{name: "last-word", set: map[string]string{"iterations": "1", "recoveries": "0"}, args: []string{"--gamma"}},
	{name: "stuck", says: "asleep", set: map[string]string{"gamma_stuck_after": "1s", "abort_after": "3s", "recoveries": "0"}},
	{name: "timeout", says: "asleep", set: map[string]string{"recoveries": "0"}, args: []string{"--timeout", "2"}},
	{name: "one-dead"},
	{name: "both-dead"},
	{name: "recovered", set: map[string]string{"iterations": "2", "recoveries": "1"}},
	{name: "stopped-recovery", says: "asleep", set: map[string]string{"recoveries": "1"}, args: []string{"--timeout", "2"}, when: ended, steer: stop},
	{name: "run-out", set: map[string]string{"iterations": "1", "recoveries": "2"}},
	{name: "unrecovered", set: map[string]string{"iterations": "1", "recoveries": "1"}, hasty: true},
	{name: "few-signals", set: map[string]string{"iterations": "4", "recoveries": "0"}, few: 3},
}

// pipelineScenario is the scenario of all of them.
const pipelineScenario = "test/recordhistories/pipelines.yaml"

// spawn makes the pipeline and returns its id. Whatever takes long is no reason to
// end it, unless its settings say so.
func (d deliberation) spawn(ctx context.Context, data string) (int64, error) {
	says := cmp.Or(d.says, d.name)
	args := append([]string{"pipeline", "spawn", "--json", "--data-dir", data, "--objective", "Record " + says}, d.args...)
	if !d.waits {
		args = append(args, "--auto-continue")
	}
	settings := map[string]string{"gamma_stuck_after": "30m", "abort_after": "30m", "timeout": "30m", "opening_timeout": "30m"}
	maps.Copy(settings, d.set)
	cmd := exec.CommandContext(ctx, "bin/rgpt", args...)
	cmd.Env = os.Environ()
	for k, v := range settings {
		cmd.Env = append(cmd.Env, "RGPT_DELIBERATION_"+strings.ToUpper(k)+"="+v)
	}
	raw, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("spawn the pipeline: %w", err)
	}
	var made struct {
		ID int64 `json:"pipeline_id"`
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return 0, fmt.Errorf("read which pipeline it is: %w: %s", err, raw)
	}
	return made.ID, nil
}

// record lets the pipeline go to its end and writes the histories of it, of those
// that recover it, and of all members.
func (d deliberation) record(ctx context.Context, out, data string) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if d.few > 0 {
		return d.recordWithFew(ctx, out)
	}
	c, err := startStack(ctx, data, pipelineScenario)
	if err != nil {
		return err
	}
	defer c.Close()
	for range moments {
		id, err := d.live(ctx, c, data)
		if err != nil {
			return err
		}
		if met, err := d.met(ctx, c, id); err != nil || met {
			return errors.Join(err, writePipelines(ctx, c, out, d.name, contract.PipelineWorkflowID(id)))
		}
	}
	return fmt.Errorf("%d pipelines were stopped too early or too late", moments)
}

// moments is how often a pipeline that is to be stopped in a moment is tried.
const moments = 50

// live lets the pipeline go to its end, and returns its id.
func (d deliberation) live(ctx context.Context, c client.Client, data string) (int64, error) {
	id, err := d.spawn(ctx, data)
	if err != nil {
		return 0, err
	}
	workflowID := contract.PipelineWorkflowID(id)
	if d.when != nil {
		if err := await(ctx, c, workflowID, contract.QueryBlackboard, d.when); err != nil {
			return 0, err
		}
	}
	if d.hasty {
		if err := stopAtEnd(ctx, c, workflowID); err != nil {
			return 0, err
		}
	}
	for _, s := range d.steer {
		if err := command(ctx, "bin/rgpt", append([]string{"pipeline", s[0], fmt.Sprint(id), "--data-dir", data}, s[1:]...)...); err != nil {
			return 0, err
		}
	}
	if err := c.GetWorkflow(ctx, workflowID, "").Get(ctx, nil); err != nil {
		return 0, fmt.Errorf("wait for the end of %s: %w", workflowID, err)
	}
	return id, nil
}

// stopAtEnd stops a pipeline as soon as its history shows how it ended. Its recovery
// begins once that is written, so this may come too late.
func stopAtEnd(ctx context.Context, c client.Client, workflowID string) error {
	over := func(e *historypb.HistoryEvent) bool {
		var status contract.PipelineStatus
		shown := e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()[contract.AttributeStatus]
		return json.Unmarshal(shown.GetData(), &status) == nil && status.Terminal()
	}
	events := c.GetWorkflowHistory(ctx, workflowID, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return fmt.Errorf("follow %s: %w", workflowID, err)
		}
		if over(e) {
			return c.SignalWorkflow(ctx, workflowID, "", contract.UpdateStop, contract.PipelineCommand{ID: "stop", By: "the recorder"})
		}
	}
	return fmt.Errorf("%s ended without an ending", workflowID)
}

// met reports whether the moment in which the pipeline was to be stopped was met:
// another one was to follow, and none does.
func (d deliberation) met(ctx context.Context, c client.Client, id int64) (bool, error) {
	if !d.hasty {
		return true, nil
	}
	h, err := history(ctx, c, contract.PipelineWorkflowID(id))
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(childrenOf(h), func(child string) bool { return !strings.Contains(child, "/") }), nil
}

// recordWithFew records on a stack whose Temporal takes few signals, so that what
// members and deliberations tell each other goes as updates.
func (d deliberation) recordWithFew(ctx context.Context, out string) error {
	data, err := os.MkdirTemp("", "rgpt-histories-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	programs := filepath.Join(data, "bin")
	if err := programsWith(programs, fmt.Sprintf("history.maximumSignalsPerExecution=%d", d.few)); err != nil {
		return err
	}
	defer func() { _ = command(context.WithoutCancel(ctx), "bin/rgpt", "dev", "stop", "--data-dir", data) }()
	c, err := startStackBy(ctx, filepath.Join(programs, "rgpt"), data, pipelineScenario)
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := d.live(ctx, c, data)
	if err != nil {
		return err
	}
	return writePipelines(ctx, c, out, d.name, contract.PipelineWorkflowID(id))
}

// programsWith copies the programs into a folder in which Temporal is started with
// another value of its configuration.
func programsWith(dir, value string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"rgpt", "rgpt-worker", "rgpt-sandbox"} {
		program, err := os.ReadFile(filepath.Join("bin", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o700); err != nil {
			return err
		}
	}
	temporal, err := filepath.Abs("bin/temporal-devserver")
	if err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" --dynamic-config-value %s\n", temporal, value)
	return os.WriteFile(filepath.Join(dir, "temporal-devserver"), []byte(script), 0o700)
}

// inExchange waits until the deliberation that plans a run is in its exchange.
func inExchange(ctx context.Context, c client.Client, data string, run int64) error {
	var list struct {
		Pipelines []struct {
			ID int64 `json:"pipeline_id"`
		} `json:"pipelines"`
	}
	for len(list.Pipelines) == 0 && ctx.Err() == nil {
		raw, err := exec.CommandContext(ctx, "bin/rgpt", "pipeline", "list", "--run", fmt.Sprint(run), "--json", "--data-dir", data).Output()
		if err != nil {
			return fmt.Errorf("list the pipelines of run %d: %w", run, err)
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fmt.Errorf("read the pipelines of run %d: %w: %s", run, err, raw)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return await(ctx, c, contract.PipelineWorkflowID(list.Pipelines[0].ID), contract.QueryBlackboard, thinking(contract.PipelineOrchestrating))
}

// writePipelines writes the histories of a deliberation, of those that recovered
// it, and of their members.
func writePipelines(ctx context.Context, c client.Client, out, name, id string) error {
	for ids := []string{id}; len(ids) > 0; ids = ids[1:] {
		h, err := history(ctx, c, ids[0])
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(ids[0], "-") // 7/member/alpha
		number, member, _ := strings.Cut(rest, "/")
		file := fmt.Sprintf("%s/pipeline-%s", out, name)
		if ids[0] != id && member == "" || strings.TrimPrefix(id, "pipeline-") != number {
			file += "-recovery-" + number
		}
		if member != "" {
			file += "-" + strings.ReplaceAll(member, "/", "-")
		}
		if err := writeHistory(file+".json.gz", h); err != nil {
			return err
		}
		ids = append(ids, childrenOf(h)...)
	}
	return nil
}
