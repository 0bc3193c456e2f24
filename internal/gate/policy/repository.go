package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// RepositoryDir is where a repository has its policies.
const RepositoryDir = ".rgpt/policies"

// The limits of a repository's policies.
const (
	maxRepositoryModules = 50
	maxRepositoryBytes   = 256 << 10 // all files together
)

// RepositoryPolicies are those of a repository. The zero value has none.
type RepositoryPolicies struct {
	modules []Module
	refused string // why they are not evaluated
}

// ReadRepository reads the policies of a repository from a tree, which must be that of the base
// commit: a change must not choose the policies that judge it.
func ReadRepository(ctx context.Context, base change.Tree) (RepositoryPolicies, error) {
	paths, err := base.Paths(ctx)
	if err != nil {
		return RepositoryPolicies{}, fmt.Errorf("find the repository's policies: %w", err)
	}
	var r RepositoryPolicies
	total := 0
	for _, p := range paths {
		if path.Dir(p) != RepositoryDir || path.Ext(p) != ".rego" || strings.HasSuffix(p, testSuffix) {
			continue
		}
		content, ok, err := base.Read(ctx, p, maxRepositoryBytes)
		if err != nil {
			return RepositoryPolicies{}, fmt.Errorf("read the repository's policy %s: %w", p, err)
		}
		total += len(content)
		if !ok || total > maxRepositoryBytes || len(r.modules) == maxRepositoryModules {
			r.refused = fmt.Sprintf("the policies in %s are larger than %d KiB or have more than %d files; make them smaller on the base branch",
				RepositoryDir, maxRepositoryBytes>>10, maxRepositoryModules)
			return r, nil
		}
		r.modules = append(r.modules, Module{Name: p, Content: content})
	}
	return r, nil
}

// Digest returns the digest of the policies, or an empty string if there are none.
func (r RepositoryPolicies) Digest() string {
	if len(r.modules) == 0 && r.refused == "" {
		return ""
	}
	return digestOf(r.modules)
}

// Modules returns the files.
func (r RepositoryPolicies) Modules() []Module { return r.modules }

// Refused says why the policies are not evaluated; empty: they are.
func (r RepositoryPolicies) Refused() string { return r.refused }

// RecordedPolicies returns a repository's policies as Modules and Refused returned them.
func RecordedPolicies(modules []Module, refused string) RepositoryPolicies {
	return RepositoryPolicies{modules: modules, refused: refused}
}

// said is what policies say besides their reasons.
type said struct {
	stops  bool // it must not be merged without a person
	review bool // another model must review the change
}

// repository returns the reasons of a repository's policies, and what else they say.
func (e *Engine) repository(ctx context.Context, input []byte, r RepositoryPolicies) (reasons []Reason, also said, err error) {
	if r.refused != "" {
		return []Reason{gateReason(Deny, r.refused)}, said{stops: true}, nil
	}
	if len(r.modules) == 0 {
		return nil, said{}, nil
	}
	answer, end, err := e.runHelper(ctx, helperTask{
		Package: Repository, Modules: r.modules, Input: input, Timeout: e.options.Timeout, Memory: e.options.Memory,
	})
	switch {
	case err != nil:
		return nil, said{}, fmt.Errorf("evaluate the repository's policies: %w", err)
	case end == helperLate:
		// No verdict: on a busy host, the same policies may finish the next time.
		return nil, said{}, fault.New(contract.ClassInfra, contract.CodeTimeout,
			"evaluate the repository's policies: the policies in %s of the base commit did not finish within %s (gate.timeout), so the change was not judged; "+
				"if the worker's host is not overloaded, make them faster on the base branch, or raise the limit", RepositoryDir, e.options.Timeout)
	case end == helperKilled:
		return []Reason{gateReason(Deny, fmt.Sprintf("the policies in %s used too much memory or time (limits: %d MiB, %s); make them simpler on the base branch",
			RepositoryDir, e.options.Memory>>20, e.options.Timeout))}, said{stops: true}, nil
	case answer.Invalid != "":
		return []Reason{gateReason(NeedsApproval, "the policies in "+RepositoryDir+" are invalid, so a person must review the change; fix them on the base branch: "+answer.Invalid)}, said{stops: true}, nil
	}
	return answer.Rules.reasons(Repository), answer.Rules.said(), nil
}

// maxAnswer is the maximum size of the helper's answer.
const maxAnswer = 4 << 20

// startTime is how long a helper may take in addition to the evaluation's limit, to start and to
// exit. The helper itself ends earlier if it can.
const startTime = 2 * time.Second

// maxHelpers is the number of helpers of this process that run at the same time, which limits their
// memory.
const maxHelpers = 4

var helpers = make(chan struct{}, maxHelpers)

// helperEnd says how the helper process ended.
type helperEnd int

const (
	helperAnswered helperEnd = iota
	helperLate               // the time for the evaluation is over
	helperKilled             // the policies used too much memory or processor time, or answered too much
)

// runHelper evaluates policies in a child process. There is an answer only if it says so by its end.
func (e *Engine) runHelper(ctx context.Context, task helperTask) (answer helperAnswer, end helperEnd, err error) {
	if !helperReady.Load() && e.options.Executable == "" {
		return answer, 0, errNotHelper
	}
	encoded, err := json.Marshal(task)
	if err != nil {
		return answer, 0, err
	}
	select {
	case helpers <- struct{}{}:
		defer func() { <-helpers }()
	case <-ctx.Done():
		return answer, 0, context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, task.Timeout+task.preparation()+startTime)
	defer cancel()
	executable := e.options.Executable
	if executable == "" {
		executable = "/proc/self/exe"
	}
	cmd := exec.CommandContext(limited, executable, helperArg)
	cmd.Env = []string{"GOTRACEBACK=none"}
	cmd.Dir = "/"
	// Not in this program's group: a terminal's interrupt must not look like a failed policy.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = bytes.NewReader(encoded)
	out := &capped{limit: maxAnswer}
	cmd.Stdout, cmd.Stderr = out, io.Discard
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return answer, 0, err
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return answer, 0, context.Cause(ctx)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == exitSetup:
		return answer, 0, errors.New("the helper process could not limit its resources")
	case limited.Err() != nil, errors.As(err, &exit) && exit.ExitCode() == exitTimeout:
		return answer, helperLate, nil
	case err != nil || out.over:
		return answer, helperKilled, nil
	}
	decoder := json.NewDecoder(&out.Buffer)
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		return answer, 0, fmt.Errorf("read the answer of the helper process: %w", err)
	}
	return answer, helperAnswered, nil
}

// capped keeps the first bytes that are written to it.
type capped struct {
	bytes.Buffer
	limit int
	over  bool
}

// Write never fails, so that the writer is not disturbed.
func (c *capped) Write(p []byte) (int, error) {
	if c.Len()+len(p) > c.limit {
		c.over = true
		return len(p), nil
	}
	return c.Buffer.Write(p)
}
