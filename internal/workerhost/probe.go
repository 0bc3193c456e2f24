package workerhost

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/doctor"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

const (
	// probeTime limits the probes, which run in parallel.
	probeTime = 10 * time.Second
	// polledWithin is how recently Temporal must have seen a role poll: a poll stays open
	// for a minute, then the next one follows.
	polledWithin = 75 * time.Second
	// maxDetail limits the text about what an agent lacks.
	maxDetail = 600
)

// poller returns the pollers of a task queue. Temporal's client implements it.
type poller interface {
	DescribeTaskQueue(ctx context.Context, queue string, kind enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

// prober checks whether the roles of a worker have everything that they need. That does not include
// the database: an agent that cannot reach it cannot send heartbeats either.
type prober struct {
	temporal poller
	sandbox  sandbox.Runner
	models   *modelclient.Client
	config   *config.Config
	dataDir  string
	log      *slog.Logger
}

// need is a requirement of some roles.
type need struct {
	roles []string // none: all
	check doctor.Check
}

// needs returns the requirements of the roles. Requirements that differ by role are checked
// separately for each role.
func (p *prober) needs(roles []string) []need {
	all := []need{
		{nil, doctor.Git()},
		{nil, doctor.DataFolder(p.dataDir)},
		{[]string{"builder", "tester", "repair"}, doctor.Check{Name: "sandbox", Run: p.sandboxWorks}},
	}
	for _, role := range contract.WorkerRoles() {
		if !slices.Contains(roles, role.Name) {
			continue
		}
		all = append(all, need{[]string{role.Name}, doctor.Check{Name: "temporal", Run: func(ctx context.Context) []doctor.Result { return p.polled(ctx, role) }}})
	}
	for _, agent := range []contract.Agent{contract.AgentPlanner, contract.AgentBuilder, contract.AgentRepair} {
		all = append(all, need{[]string{string(agent)}, doctor.Check{Name: "model", Run: func(context.Context) []doctor.Result { return p.modelOf(agent) }}})
	}
	return slices.DeleteFunc(all, func(n need) bool {
		return len(n.roles) > 0 && !slices.ContainsFunc(n.roles, func(r string) bool { return slices.Contains(roles, r) })
	})
}

// lacking returns a description of what each role lacks, empty for roles that are ready.
func (p *prober) lacking(ctx context.Context, roles []string) map[string]string {
	needs := p.needs(roles)
	checks := make([]doctor.Check, len(needs))
	for i, n := range needs {
		checks[i] = n.check
		checks[i].Name = fmt.Sprint(i) // tells results apart
	}
	missing := map[string][]string{}
	for _, r := range doctor.Run(ctx, probeTime, checks...) {
		if r.Status != doctor.Fail {
			continue
		}
		var i int
		if _, err := fmt.Sscan(r.Check, &i); err != nil {
			continue
		}
		words := needs[i].check.Name + ": " + r.Message
		if r.Remedy != "" {
			words += "; " + r.Remedy
		}
		for _, role := range roles {
			if len(needs[i].roles) == 0 || slices.Contains(needs[i].roles, role) {
				missing[role] = append(missing[role], words)
			}
		}
	}
	out := map[string]string{}
	for role, words := range missing {
		text := telemetry.Redact(strings.Join(words, ". "))
		if len(text) > maxDetail {
			text = strings.ToValidUTF8(text[:maxDetail], "") + "…"
		}
		out[role] = text
	}
	return out
}

// polled checks that Temporal sees this worker poll a role's queue.
func (p *prober) polled(ctx context.Context, role contract.WorkerRole) []doctor.Result {
	kinds := []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_ACTIVITY}
	if role.Workflows {
		kinds = append(kinds, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	}
	for _, kind := range kinds {
		queue, err := p.temporal.DescribeTaskQueue(ctx, role.Queue, kind)
		if err != nil {
			p.log.DebugContext(ctx, "Could not read the pollers of a queue", "queue", role.Queue, "error", err)
			return doctor.Failed("it is not responding", "check that it is running; the worker reconnects automatically")
		}
		known := false
		for _, one := range queue.GetPollers() {
			known = known || one.GetIdentity() == temporal.Identity() && time.Since(one.GetLastAccessTime().AsTime()) < polledWithin
		}
		if !known {
			return doctor.Failed("this worker does not poll "+role.Queue+" yet", "if this persists, restart the worker")
		}
	}
	return nil
}

// sandboxWorks runs a no-op command in the sandbox.
func (p *prober) sandboxWorks(ctx context.Context) []doctor.Result {
	if err := p.runSandboxProbe(ctx); err != nil {
		p.log.DebugContext(ctx, "The sandbox probe failed", "error", err)
		return doctor.Failed("commands cannot be isolated ("+fault.Of(err).Message+")", "run rgpt doctor on this host to see what is missing")
	}
	return nil
}

func (p *prober) runSandboxProbe(ctx context.Context) error {
	root, err := os.MkdirTemp("", "rgpt-probe-")
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return fmt.Errorf("create a directory for the sandbox probe: %w", err)
	}
	defer os.RemoveAll(root)
	result, err := p.sandbox.Run(ctx, sandbox.Command{Args: []string{"true"}, Root: root, Limits: sandbox.Limits{Timeout: probeTime}})
	if err == nil && !result.OK() {
		err = fmt.Errorf("a no-op command exited with code %d", result.ExitCode)
	}
	return err
}

// modelOf checks that an agent has a model, and its provider a key.
func (p *prober) modelOf(agent contract.Agent) []doctor.Result {
	choices, err := setup.Models(p.config)
	if err == nil {
		err = p.models.Configured(choices[agent].Provider)
	}
	if err != nil {
		return doctor.Failed(fault.Of(err).Message, "")
	}
	return nil
}
