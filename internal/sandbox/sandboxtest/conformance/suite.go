// Package conformance contains the tests that every sandbox.Runner must pass: what commands cannot
// reach, the limits that end them, and what callers may rely on.
package conformance

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Runner is the runner under test.
type Runner interface {
	sandbox.Runner
	Features() []sandbox.Feature
}

// suite runs the tests against a runner.
type suite struct{ runner Runner }

// Run runs all tests as parallel subtests.
func Run(t *testing.T, runner Runner) {
	t.Helper()
	s := &suite{runner}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"NetworkIsOutOfReach", s.networkIsOutOfReach},
		{"ServersUnderTestHaveALoopbackOfTheirOwn", s.serversUnderTestHaveALoopbackOfTheirOwn},
		{"HostFilesAreOutOfReach", s.hostFilesAreOutOfReach},
		{"HelperIsOutOfReach", s.helperIsOutOfReach},
		{"HostProcessesAreOutOfReach", s.hostProcessesAreOutOfReach},
		{"DangerousSystemCallsAreDenied", s.dangerousSystemCallsAreDenied},
		{"OrdinaryProgramsSeeNoFilter", s.ordinaryProgramsSeeNoFilter},
		{"SetUIDProgramsGiveNothing", s.setUIDProgramsGiveNothing},
		{"ThereIsNoTerminal", s.thereIsNoTerminal},
		{"NoByteLeavesButThroughTheProxy", s.noByteLeavesButThroughTheProxy},
		{"TheProxyLeadsToAllowedHostsOnly", s.theProxyLeadsToAllowedHostsOnly},
		{"LimitsEndCommands", s.limitsEndCommands},
		{"SystemVSharedMemoryIsSmall", s.systemVSharedMemoryIsSmall},
		{"TimeoutEndsASleeper", s.timeoutEndsASleeper},
		{"ScratchSpaceIsBounded", s.scratchSpaceIsBounded},
		{"UsageIsMeasured", s.usageIsMeasured},
		{"ResultTellsHowACommandEnded", s.resultTellsHowACommandEnded},
		{"WorkspaceIsWritableAndStaysTheWorkers", s.workspaceIsWritableAndStaysTheWorkers},
		{"PrivateDirectoriesEndWithTheCommand", s.privateDirectoriesEndWithTheCommand},
		{"MountsAreSeenWhereTheCallerSays", s.mountsAreSeenWhereTheCallerSays},
		{"CommandsThatMakeNoSenseAreRefused", s.commandsThatMakeNoSenseAreRefused},
		{"NoProcessIsLeftWhenRunReturns", s.noProcessIsLeftWhenRunReturns},
		{"CancellingEndsEverything", s.cancellingEndsEverything},
		{"ManyCommandsAtOnceDoNotDisturbEachOther", s.manyCommandsAtOnceDoNotDisturbEachOther},
		{"OutputIsLiveAndCapped", s.outputIsLiveAndCapped},
		{"BasesShowBelowWorkspaceAndHome", s.basesShowBelowWorkspaceAndHome},
		{"NoCommandChangesABase", s.noCommandChangesABase},
		{"CommandsShareABaseAtTheSameTime", s.commandsShareABaseAtTheSameTime},
		{"DirectoriesOfTheCallerCountForTheDiskLimit", s.directoriesOfTheCallerCountForTheDiskLimit},
		{"LongCommandsLeaveNeitherProcessNorMount", s.longCommandsLeaveNeitherProcessNorMount},
	} {
		t.Run(test.name, test.run)
	}
}

// parallel returns the runner, and lets the test run beside others.
func (s *suite) parallel(t *testing.T) Runner {
	t.Helper()
	t.Parallel()
	return s.runner
}

// run runs a command with limits small enough for a shared machine.
func run(t *testing.T, r Runner, c sandbox.Command) sandbox.Result {
	t.Helper()
	if c.Root == "" {
		c.Root = t.TempDir()
	}
	small := sandbox.Limits{Timeout: 30 * time.Second, Processes: 200, MemoryBytes: 512 << 20, DiskBytes: 256 << 20, FileBytes: 128 << 20}
	limits, defaults := reflect.ValueOf(&c.Limits).Elem(), reflect.ValueOf(small)
	for i := range limits.NumField() {
		if limits.Field(i).IsZero() {
			limits.Field(i).Set(defaults.Field(i))
		}
	}
	res, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	return res
}

// output returns the output of a command that succeeds.
func output(t *testing.T, r Runner, script string) string {
	t.Helper()
	res := run(t, r, sandbox.Command{Shell: script})
	require.True(t, res.OK(), "%s\n%+v\n%s", script, res, res.Stderr)
	return string(res.Stdout)
}

// feature returns what a runner says about a part of its isolation, or the zero value.
func feature(r Runner, name string) sandbox.Feature {
	for _, f := range r.Features() {
		if f.Name == name {
			return f
		}
	}
	return sandbox.Feature{}
}
