package devstack

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"golang.org/x/mod/semver"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// The files with Temporal's state in the data folder, by the program that wrote them. Each program
// has its own file, because their schemas may differ.
const (
	devserverState = "temporal.db"
	cliState       = "temporal-cli.db"
)

// oldestCLIServer is the oldest supported version of the server in the temporal command. All tests
// run on this minor version. scripts/temporal-cli.sh has the same version.
const oldestCLIServer = "v1.32.0"

var cliServer = regexp.MustCompile(`\(Server ([0-9]+\.[0-9]+\.[0-9]+)`)

// CheckTemporalCLI returns an error unless the server inside an installed temporal
// command is recent enough for a stack.
func CheckTemporalCLI(ctx context.Context, program string) error {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot run %s --version", program)
	}
	found := cliServer.FindSubmatch(out)
	if found == nil {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s --version does not report a server version: %.100q", program, out)
	}
	if v := "v" + string(found[1]); semver.Compare(v, oldestCLIServer) < 0 {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"%s contains Temporal server %s, but rgpt needs %s or newer; update it, or build a server with `make devserver`", program, v, oldestCLIServer)
	}
	return nil
}

// usesCLI reports whether to run the server of the temporal command because ours is missing. A data
// folder always uses the program that created it, because the other one cannot read its histories.
func (u *starter) usesCLI() (bool, error) {
	begun := func(file string) bool {
		_, err := os.Stat(u.Path(file))
		return !errors.Is(err, fs.ErrNotExist)
	}
	ours, cli := u.o.Programs.Devserver != "", u.o.Programs.TemporalCLI != ""
	switch {
	case begun(devserverState) && !ours:
		return false, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"the histories in %s were written by temporal-devserver, which is missing; build it with `make devserver`, or choose another data folder", u.DataDir)
	case begun(cliState) && !begun(devserverState) && !cli:
		return false, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"the histories in %s were written by the temporal command, which is missing from the PATH; install it, or choose another data folder", u.DataDir)
	}
	return !begun(devserverState) && (begun(cliState) || !ours), nil
}

// temporalCLI starts the development server of the temporal command.
func (u *starter) temporalCLI() *launch {
	args := []string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(u.Ports.Temporal), "--ui-port", strconv.Itoa(u.Ports.TemporalUI),
		"--namespace", u.Namespace, "--db-filename", u.Path(cliState), "--log-level", "warn",
		// Our server has these built in. Without them, a run with many steps waits for
		// rate limits and late timers.
		"--dynamic-config-value", "history.transferProcessorMaxPollRPS=1000000",
		"--dynamic-config-value", "history.timerProcessorMaxPollRPS=1000000",
		"--dynamic-config-value", `history.timerProcessorMaxTimeShift="50ms"`,
	}
	for _, a := range contract.SearchAttributes() {
		args = append(args, "--search-attribute", a[0]+"="+a[1])
	}
	return &launch{role: RoleTemporal, program: u.o.Programs.TemporalCLI, args: args, env: os.Environ(), address: u.Temporal}
}

// servingTime is the time limit for describing a namespace.
const servingTime = time.Second

// serving reports whether a Temporal server responds and has the namespace.
func serving(ctx context.Context, address, namespace string) bool {
	ctx, cancel := context.WithTimeout(ctx, servingTime)
	defer cancel()
	quiet := sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: quiet})
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	return err == nil
}
