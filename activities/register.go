// Package activities contains the activities of agents: one file for each agent, and the model and
// tool calls that they share. Each activity has one input struct and one result struct of package
// contract, is idempotent, and fails only if it could not be carried out: a failed test or a
// rejected tool call is a result.
package activities

import (
	"context"
	"log/slog"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
	"github.com/rocketgpt/orchestrator/internal/inflight"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelcall"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/route"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Activities contains the dependencies of activities. All of them are safe for concurrent use and
// belong to the worker.
type Activities struct {
	Store      *store.Store
	Views      *views.Views // data of reports
	Model      *modelclient.Client
	Admission  *admission.Gate // decides when models may be called; nil: at any time
	Router     *route.Router   // chooses among the models of a run
	Workspaces *workspace.Manager
	Brain      *brain.Brain // the index of repositories; nil: agents cannot ask it
	Tools      *tool.Set    // for agents that work on a goal
	SetupTools *tool.Set    // of the environment agent
	Sandbox    sandbox.Runner
	Proxy      *proxy.Proxy // the sandboxes' network access; nil: none
	Artifacts  *artifact.Store
	Config     *config.Config
	Temporal   client.Client
	DataDir    string
	Log        *slog.Logger
	Cores      *cores.Queue // for checks and commands; nil: they never wait
	// CommandTools returns the tools that commands can use; nil: there are none.
	CommandTools environment.ToolsOf
	// Forges are the forges on which runs open pull requests.
	Forges Forges
	// BuildImage builds the image that commands name; nil: commands do not run in containers.
	BuildImage func(context.Context, docker.Source) (docker.Built, error)
	// Scanners are the versions of the scanners for vulnerabilities and secrets available to checks.
	Scanners map[string]string
	// Registries are asked about dependencies that changes add; nil: they are not asked.
	Registries *releases.Client

	prompts  sync.Map                                      // versions of prompts whose text is stored
	facts    sync.Map                                      // facts from git about base commits, by repository and commit
	failures sync.Map                                      // of setups, by digest; of setups that a change requires, by digest and tree
	calls    inflight.Group[modelcall.Key, model.Response] // running model calls
}

// Role is a part of a worker: the activities that it registers on a queue.
type Role struct {
	Name     string
	Queue    string
	Register func(*Activities, worker.ActivityRegistry)
}

// Roles returns the roles that have activities, each with the queue it serves. Short activities,
// especially records, run as local activities on the workflow's worker, so a role that runs
// workflows registers them as well.
func Roles() []Role {
	return []Role{
		{"run", contract.QueueRun, func(a *Activities, r worker.ActivityRegistry) {
			register(r, contract.ActivityRecord, a.Record)
			register(r, contract.ActivityTestReport, a.TestReport)
			register(r, contract.ActivityHandoff, a.Handoff)
			register(r, contract.ActivityRunTimeFrom, a.Store.RunTimeFrom)
			register(r, contract.ActivityTakeCheck, a.TakeCheck)
			register(r, contract.ActivityAdoptPlan, a.AdoptPlan)
			register(r, contract.ActivityOpenStep, a.OpenStep)
			register(r, contract.ActivityTool, a.CallTool)
			register(r, contract.ActivityIntegrate, a.Integrate)
			register(r, contract.ActivityEnvironment, a.Environment)
			register(r, contract.ActivityTestPlan, a.PlanTests)
			register(r, contract.ActivityCleanUp, a.CleanUp)
			register(r, contract.ActivityGate, a.JudgeChange)
			register(r, contract.ActivityReviewDue, a.ReviewDue)
			register(r, contract.ActivityPipelineRecord, a.PipelineRecord)
			register(r, contract.ActivityCreatePipeline, a.CreatePipeline)
			register(r, contract.ActivityClosePipeline, a.ClosePipeline)
			register(r, contract.ActivityWriteHandoff, a.WriteHandoff)
			register(r, contract.ActivitySaveTranscript, a.SaveTranscript)
			register(r, contract.ActivityDeliver, a.Deliver)
			register(r, contract.ActivityAttemptChoice, a.AttemptChoice)
			register(r, contract.ActivityAttemptsState, a.AttemptsState)
			register(r, contract.ActivityAttemptsRank, a.RankAttempts)
			register(r, contract.ActivityAttemptsDecide, a.DecideAttempts)
			register(r, contract.ActivityAttemptsNotify, a.NotifyAttempts)
			register(r, contract.ActivityQueueSave, a.SaveQueue)
			register(r, contract.ActivityChangeSetReady, a.ReadyInChangeSet)
			register(r, contract.ActivityChangeSetDecide, a.DecideChangeSet)
			register(r, contract.ActivityChangeSetNotify, a.NotifyChangeSet)
			register(r, contract.ActivityTrigger, a.Trigger)
		}},
		{"planner", contract.QueuePlanner, func(a *Activities, r worker.ActivityRegistry) {
			register(r, contract.ActivityPlan, a.Plan)
			register(r, contract.ActivityRecord, a.Record)
			register(r, contract.ActivityOpenMember, a.OpenMember)
			register(r, contract.ActivityThink, a.Think)
			register(r, contract.ActivityAttemptsJudge, a.JudgeAttempts)
			register(r, contract.ActivityReview, a.Review)
		}},
		{"builder", contract.QueueBuilder, func(a *Activities, r worker.ActivityRegistry) {
			register(r, contract.ActivityRecord, a.Record)
			register(r, contract.ActivityOpenStep, a.OpenStep)
			register(r, contract.ActivityThink, a.Think)
			register(r, contract.ActivityTool, a.CallTool)
			register(r, contract.ActivityIntegrate, a.Integrate)
			register(r, contract.ActivityGate, a.JudgeChange)
			register(r, contract.ActivityCleanUp, a.CleanUp)
			register(r, contract.ActivityTestPlan, a.PlanTests)
		}},
		{"tester", contract.QueueTester, func(a *Activities, r worker.ActivityRegistry) {
			register(r, contract.ActivityEnvironment, a.Environment)
			register(r, contract.ActivityBaseline, a.Baseline)
			register(r, contract.ActivityProposal, a.Proposal)
			register(r, contract.ActivityJudgeSetup, a.JudgeSetup)
			register(r, contract.ActivityGate, a.JudgeChange)
			register(r, contract.ActivityReviewDue, a.ReviewDue)
			register(r, contract.ActivityTestPlan, a.PlanTests)
			register(r, contract.ActivityVerify, a.Verify)
		}},
		{"repair", contract.QueueRepair, func(a *Activities, r worker.ActivityRegistry) {
			register(r, contract.ActivityRecord, a.Record)
			register(r, contract.ActivityOpenStep, a.OpenStep)
			register(r, contract.ActivityThink, a.Think)
			register(r, contract.ActivityTool, a.CallTool)
			register(r, contract.ActivityDiagnose, a.Diagnose)
			register(r, contract.ActivityWorkers, a.Workers)
			register(r, contract.ActivityJudge, a.Judge)
			register(r, contract.ActivityCreateDefaults, a.CreateDefaults)
			register(r, contract.ActivityTestPlan, a.PlanTests)
		}},
		{"releaser", contract.QueueReleaser, func(a *Activities, r worker.ActivityRegistry) {
			register(r, contract.ActivityProtected, a.Protected)
			register(r, contract.ActivityRelease, a.Release)
			register(r, contract.ActivityPullRequest, a.PullRequest)
			register(r, contract.ActivityAnswer, a.Answer)
			register(r, contract.ActivityTakeBranch, a.TakeBranch)
			register(r, contract.ActivityUpdateBranch, a.UpdateBranch)
			register(r, contract.ActivityConflictMarkers, a.ConflictMarkers)
			register(r, contract.ActivityAttemptHeld, a.AttemptHeld)
			register(r, contract.ActivityChangeSetLink, a.LinkChangeSet)
			register(r, contract.ActivityQueueCandidate, a.QueueCandidate)
			register(r, contract.ActivityQueueChecks, a.QueueChecks)
			register(r, contract.ActivityQueueMerge, a.QueueMerge)
			register(r, contract.ActivityQueueReturn, a.QueueReturn)
			register(r, contract.ActivityQueueCleanUp, a.QueueCleanUp)
		}},
	}
}

func register(r worker.ActivityRegistry, name string, f any) {
	r.RegisterActivityWithOptions(f, activity.RegisterOptions{
		Name: name, DisableAlreadyRegisteredCheck: true, // a worker's own queue has all of its roles
	})
}
