package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func TestRunsThatWaitForASetupThatFailsDoNotTryItAgain(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.useProxy()
	// It takes long enough for all runs to wait for it.
	h.Config.Environment.Setup = []string{"sleep 5; echo no such registry; exit 1"}
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(t, err)
	prepare := func() (contract.EnvironmentResult, int64, error) {
		run, _, err := h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec})
		if err != nil {
			return contract.EnvironmentResult{}, 0, err
		}
		out, err := h.Environment(t.Context(), contract.EnvironmentInput{RunID: run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9})
		return out, run.ID, err
	}
	// tried counts the runs that executed the set-up: each keeps its output.
	tried := func(runs []int64) (n int) {
		for _, id := range runs {
			details, err := h.Views.RunDetails(t.Context(), id)
			require.NoError(t, err)
			for _, a := range details.Artifacts {
				if strings.HasSuffix(a.Name, "/setup.log") {
					n++
				}
			}
		}
		return n
	}
	runs, results := make([]int64, 3), make([]contract.EnvironmentResult, 3)
	var group errgroup.Group
	for i := range runs {
		group.Go(func() (err error) {
			results[i], runs[i], err = prepare()
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, out := range results {
		require.NotNil(t, out.Failure)
		require.Contains(t, out.Failure.Cause, "no such registry")
	}
	require.Equal(t, 1, tried(runs))

	_, later, err := prepare()
	require.NoError(t, err)
	require.Equal(t, 1, tried([]int64{later}), "who asks later, after somebody may have mended it, tries again")
}

func TestASetupComesFromTheRunThenAPersonThenTheConfigurationThenAnAgent(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.useProxy()
	h.Config.Environment.Setup = []string{"echo configured $WORD; exit 1"}
	h.Config.Environment.Variables = map[string]string{"WORD": "here"}
	// executed returns what the set-up of a new run printed before it failed.
	executed := func(given bool) string {
		settings, spec, err := setup.Freeze(h.Config, h.repo)
		require.NoError(t, err)
		spec.EnvironmentGiven = given
		run, _, err := h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec})
		require.NoError(t, err)
		out, err := h.Environment(t.Context(), contract.EnvironmentInput{RunID: run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9})
		require.NoError(t, err)
		require.NotNil(t, out.Failure)
		return out.Failure.Cause
	}
	say := func(source environment.Source, s environment.Settings) {
		doc, err := json.Marshal(s)
		require.NoError(t, err)
		_, err = h.Store.AddSetup(t.Context(), store.Setup{Repo: h.repo.URL, Source: string(source), Settings: doc, Reason: "because", CreatedBy: "t", Proven: true})
		require.NoError(t, err)
	}
	say(environment.SourceAgent, environment.Settings{Setup: []string{"echo of an agent; exit 1"}})
	require.Contains(t, executed(false), "configured here")

	say(environment.SourcePerson, environment.Settings{Variables: map[string]string{"WORD": "there"}})
	require.Contains(t, executed(false), "configured there", "a person who names variables alone takes no command away")

	say(environment.SourcePerson, environment.Settings{Setup: []string{"echo of a person; exit 1"}})
	require.Contains(t, executed(false), "of a person")
	require.Contains(t, executed(true), "configured here", "what was given for one run")
}

// useProxy gives the fixture the proxy of the configuration, which a setup needs.
func (h *fixture) useProxy() {
	h.t.Helper()
	var err error
	h.Proxy, err = setup.Proxy(h.Config)
	require.NoError(h.t, err)
}

// setUpBy creates an environment with a command.
func (h *fixture) setUpBy(command string) contract.EnvironmentResult {
	h.t.Helper()
	h.useProxy()
	h.setUpWith(command)
	return h.prepared()
}

// setUpWith makes the run one that is set up by a command.
func (h *fixture) setUpWith(command string) {
	h.t.Helper()
	h.Config.Environment.Setup = []string{command}
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(h.t, err)
	settings.Release.Branch = "rgpt/run-set-up"
	h.run, _, err = h.Store.CreateRun(h.t.Context(), store.NewRun{Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec})
	require.NoError(h.t, err)
	h.seq = 0
}

// prepared creates the environment of the run.
func (h *fixture) prepared() contract.EnvironmentResult {
	h.t.Helper()
	out, err := h.Environment(h.t.Context(), contract.EnvironmentInput{RunID: h.run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9})
	require.NoError(h.t, err)
	return out
}

// madeFile returns a file of the work tree that an environment of this host added.
func (h *fixture) madeFile(digest, name string) string {
	h.t.Helper()
	env, err := setup.Environments(h.dataDir).Open(digest)
	require.NoError(h.t, err)
	defer env.Close()
	content, err := os.ReadFile(filepath.Join(env.Work(), name))
	require.NoError(h.t, err)
	return string(content)
}

// lose removes an environment from this host, and its archive.
func (h *fixture) lose(digest string) {
	h.t.Helper()
	row, err := h.Store.Environment(h.t.Context(), digest)
	require.NoError(h.t, err)
	require.NoError(h.t, h.Artifacts.Remove(h.t.Context(), row.Archive))
	removed, err := setup.Environments(h.dataDir).Remove(digest)
	require.NoError(h.t, err)
	require.True(h.t, removed)
}

func TestALocalActivityFindsOnlyAnEnvironmentThatIsOnAHostWithTheTools(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.useProxy()
	h.setUpWith("touch made.out")
	find := func() contract.EnvironmentResult {
		out, err := h.Environment(t.Context(), contract.EnvironmentInput{RunID: h.run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9, Baseline: true, LocalOnly: true})
		require.NoError(t, err)
		return out
	}
	require.Equal(t, contract.EnvironmentResult{Cold: true}, find(), "it is not set up yet")
	made := h.prepared()
	require.False(t, made.Kept)
	found := find()
	require.False(t, found.Cold)
	require.True(t, found.Kept)
	require.Equal(t, made.Digest, found.Digest)
	require.NotNil(t, found.Baseline)

	h.Config.Worker.Roles = []string{"run", "builder"}
	require.Equal(t, contract.EnvironmentResult{Cold: true}, find(), "the tester's hosts may have other tools")
}

func TestALostEnvironmentIsMadeAgainWithoutTheAgentsChange(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	made := h.setUpBy("cp h*.txt made.out") // no input is named, so that the digest stays
	require.Nil(t, made.Failure)
	require.Equal(t, "hello\n", h.madeFile(made.Digest, "made.out"))
	changed := h.with(h.repo.Workspace(), "hello.txt", "hello, and something bad\n")
	h.lose(made.Digest)

	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: changed})
	require.Nil(t, failure)
	require.NotEmpty(t, plan.Stages)
	result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: changed, Check: plan.Stages[0][0], Timeout: 60e9})
	require.Nil(t, failure)
	require.True(t, result.OK, result.Message)
	require.Equal(t, "hello\n", h.madeFile(made.Digest, "made.out"), "others use this environment, too")
}

func TestARemovedEnvironmentIsMadeAgainThoughAHostHasACopy(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	const command = "date +%N > made.out"
	made := h.setUpBy(command)
	require.Nil(t, made.Failure)
	first := h.madeFile(made.Digest, "made.out")
	require.True(t, h.prepared().Kept)
	require.Equal(t, first, h.madeFile(made.Digest, "made.out"))

	_, err := h.Store.RemoveEnvironment(t.Context(), made.Digest, "ann")
	require.NoError(t, err)
	here := h.DataDir
	h.DataDir = t.TempDir() // another host, which has no copy
	again := h.setUpBy(command)
	require.False(t, again.Kept)
	require.Equal(t, made.Digest, again.Digest)

	h.DataDir = here
	require.True(t, h.prepared().Kept)
	second := h.madeFile(made.Digest, "made.out")
	require.NotEqual(t, first, second)
	require.True(t, h.prepared().Kept)
	require.Equal(t, second, h.madeFile(made.Digest, "made.out"))
	_, err = h.Store.RemoveEnvironment(t.Context(), made.Digest, "ann")
	require.NoError(t, err)
	require.False(t, h.prepared().Kept)
}

// asksRegistry is a set-up that succeeds if its registry answers.
const asksRegistry = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128
printf "GET http://registry.test/ HTTP/1.0\r\nHost: registry.test\r\n\r\n" >&3
grep -q "from the registry" <&3 && echo yes > made.out'`

// publicly resolves all names to a public address.
type publicly struct{}

func (publicly) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
}

func TestASetUpThatCannotReachAHostIsTriedAgain(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "from the registry") }))
	t.Cleanup(registry.Close)
	var away atomic.Bool
	h := newFixture(t, "  []")
	var err error
	h.Proxy, err = proxy.New(proxy.Options{Resolver: publicly{}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, registry.Listener.Addr().String())
	}})
	require.NoError(t, err)
	h.Config.Environment.Network.Hosts = []string{"registry.test:80"}
	h.setUpWith(asksRegistry)
	in := contract.EnvironmentInput{RunID: h.run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9}

	away.Store(true)
	_, failure := do[contract.EnvironmentResult](h, h.Environment, in)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, string(contract.CodeUnreachable))
	require.Contains(t, failure.Message, "registry.test could not be reached: dial: connection refused")
	last := h.prepared() // not as an activity, so that it is not retried
	require.NotNil(t, last.Failure)
	require.Contains(t, last.Failure.Message, "registry.test could not be reached")

	away.Store(false)
	made, failure := do[contract.EnvironmentResult](h, h.Environment, in)
	require.Nil(t, failure)
	require.Nil(t, made.Failure)
	require.Equal(t, "yes\n", h.madeFile(made.Digest, "made.out"))
}

func TestAnOutcomeThatIsNotKeptOutlastsThatAnotherRunAsks(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.Config.Verification.Security.Enabled = config.Off
	h.Config.Verification.Test.Command = "sh -c 'exit 127'"
	require.Nil(t, h.setUpBy("true").Failure)
	one := h.run.ID
	asked := func(run int64, done bool) contract.BaselineResult {
		t.Helper()
		out, err := h.Baseline(t.Context(), contract.BaselineInput{RunID: run, Workspace: h.repo.Workspace(), Done: done})
		require.NoError(t, err)
		return out
	}
	verify := func(b contract.BaselineResult, run int64) {
		t.Helper()
		require.Len(t, b.Stages, 1)
		out, err := h.Verify(t.Context(), contract.VerifyInput{
			Execution: contract.BaselineExecution(run), Workspace: h.repo.Workspace(), Check: b.Stages[0][0], Baseline: b.Key, Timeout: 60e9,
		})
		require.NoError(t, err)
		require.Equal(t, contract.CodeMissing, out.Code, out.Message)
	}
	verify(asked(one, false), one)
	require.Nil(t, h.setUpBy("true").Failure)
	other := asked(h.run.ID, false)
	require.NotEmpty(t, asked(one, true).Unavailable, "the other run has begun the check anew")
	before, err := h.Store.Baseline(t.Context(), other.Key)
	require.NoError(t, err)
	verify(other, h.run.ID)
	after, err := h.Store.Baseline(t.Context(), other.Key)
	require.NoError(t, err)
	require.True(t, after.Checks[0].CreatedAt.After(before.Checks[0].CreatedAt), "it was carried out again")
	require.Empty(t, asked(h.run.ID, true).Stages)
}

func TestAnEnvironmentSaysWhichChecksOfTheBaseCommitMustRun(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.Config.Verification.Test.Command = "true"
	require.Nil(t, h.setUpBy("true").Baseline, "it was not asked")
	in := contract.EnvironmentInput{RunID: h.run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9, Baseline: true}
	env, err := h.Environment(t.Context(), in)
	require.NoError(t, err)
	b, err := h.Baseline(t.Context(), contract.BaselineInput{RunID: h.run.ID, Workspace: h.repo.Workspace()})
	require.NoError(t, err)
	require.NotEmpty(t, b.Stages)
	require.Equal(t, b, *env.Baseline)
	run, err := h.Store.Run(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, b.Key, run.Baseline)
}

func TestToolsOfAnotherVersionMakeABaselineOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	require.Nil(t, h.setUpBy("true").Failure)
	keys := map[string]bool{}
	for _, version := range []string{"1", "2", "1"} {
		h.CommandTools = func(context.Context, string) (environment.Tools, error) {
			return environment.Tools{"make": version}, nil
		}
		out, err := h.Baseline(t.Context(), contract.BaselineInput{RunID: h.run.ID, Workspace: h.repo.Workspace()})
		require.NoError(t, err)
		keys[out.Key] = true
	}
	require.Len(t, keys, 2)
}

func TestRunsShareABaselineWhateverEarlierRunsMeasured(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	keys := map[string]bool{}
	for _, measured := range []checks.Durations{nil, {"a.spec.ts": 10}, {"a.spec.ts": 20}} {
		spec := setup.RunSpec{Verification: checks.Settings{AutoDetect: true, Shards: 2, Durations: measured}}
		run, _, err := h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: h.run.Settings, Spec: spec})
		require.NoError(t, err)
		out, err := h.Baseline(t.Context(), contract.BaselineInput{RunID: run.ID, Workspace: h.repo.Workspace()})
		require.NoError(t, err)
		keys[out.Key] = true
	}
	require.Len(t, keys, 1)
}

func TestASetUpFindsWhatTheLastOneOfItsRepositoryDownloaded(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.Config.Environment.Cache = []string{"~/.cache/tool", "~/.none"}
	require.Nil(t, h.setUpBy("mkdir -p ~/.cache/tool && echo downloaded > ~/.cache/tool/package").Failure)
	second := h.setUpBy("cp ~/.cache/tool/package made.out; touch ~/.cache/more ~/.cache/tool/more")
	require.Nil(t, second.Failure)
	require.Equal(t, "downloaded\n", h.madeFile(second.Digest, "made.out"))
	env, err := setup.Environments(h.dataDir).Open(second.Digest)
	require.NoError(t, err)
	defer env.Close()
	require.NoDirExists(t, filepath.Join(env.Home(), ".cache/tool"), "it is not part of the environment")
	require.FileExists(t, filepath.Join(env.Home(), ".cache/more"))

	failed := h.setUpBy("test -e ~/.cache/tool/more && touch ~/.cache/tool/third; exit 1")
	require.NotNil(t, failed.Failure)
	third := h.setUpBy("ls ~/.cache/tool > made.out")
	require.Nil(t, third.Failure)
	require.Equal(t, "more\npackage\nthird\n", h.madeFile(third.Digest, "made.out"), "what a failed set-up downloaded helps the next one")
}
