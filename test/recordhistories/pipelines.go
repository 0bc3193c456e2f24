package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

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
	{name: "late-opening", set: map[string]string{"opening_timeout": "1s"}},
	{name: "stopped-running", when: thinking(contract.PipelineRunning), steer: stop},
	{name: "stopped-waiting", waits: true, when: waiting, steer: stop},
	{name: "stopped-exchange", says: "asleep", when: thinking(contract.PipelineOrchestrating), steer: stop},
	{name: "expired-continue", waits: true, set: map[string]string{"continue_wait": "1s"}},
	{name: "steered", waits: true, when: waiting, steer: [][]string{{"revoke", "beta", "--reason", "it rambles"}, {"continue", "--model", "scripted/other"}}},
	{name: "iteration-limit", set: once},
	{name: "stuck", says: "asleep", set: map[string]string{"gamma_stuck_after": "1s", "abort_after": "3s", "recoveries": "0"}},
	{name: "timeout", says: "asleep", set: map[string]string{"recoveries": "0"}, args: []string{"--timeout", "2"}},
	{name: "one-dead"},
	{name: "both-dead"},
	{name: "recovered", set: map[string]string{"iterations": "2", "recoveries": "1"}},
	{name: "stopped-recovery", says: "asleep", set: map[string]string{"recoveries": "1"}, args: []string{"--timeout", "2"}, when: ended, steer: stop},
	{name: "run-out", set: map[string]string{"iterations": "1", "recoveries": "2"}},
}

// pipelineScenario is the scenario of all of them.
const pipelineScenario = "test/recordhistories/pipelines.yaml"

// spawn makes the pipeline and returns its id. Whatever takes long is no reason to
// end it, unless its settings say so.
func (d deliberation) spawn(ctx context.Context, data string) (int64, error) {
	says := d.says
	if says == "" {
		says = d.name
	}
	args := append([]string{"pipeline", "spawn", "--json", "--data-dir", data, "--objective", "Record " + says}, d.args...)
	if !d.waits {
		args = append(args, "--auto-continue")
	}
	settings := map[string]string{"gamma_stuck_after": "30m", "abort_after": "30m", "timeout": "30m", "opening_timeout": "30m"}
	for k, v := range d.set {
		settings[k] = v
	}
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
	c, err := startStack(ctx, data, pipelineScenario)
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := d.spawn(ctx, data)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if d.when != nil {
		if err := await(ctx, c, contract.PipelineWorkflowID(id), contract.QueryBlackboard, d.when); err != nil {
			return err
		}
	}
	for _, s := range d.steer {
		if err := command(ctx, "bin/rgpt", append([]string{"pipeline", s[0], fmt.Sprint(id), "--data-dir", data}, s[1:]...)...); err != nil {
			return err
		}
	}
	workflowID := contract.PipelineWorkflowID(id)
	if err := c.GetWorkflow(ctx, workflowID, "").Get(ctx, nil); err != nil {
		return fmt.Errorf("wait for the end of %s: %w", workflowID, err)
	}
	return writePipelines(ctx, c, out, d.name, workflowID)
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
