// Package workflow is the guard of files that run by themselves: in CI, at an install, at a commit, or
// when a person or an agent opens the repository. Their code runs with more rights than that of the
// product, and often before anyone has read it.
//
//	Rule                Severity       Meaning                                       What to do
//	ci                  major          a CI configuration changes                    let a person approve it
//	action              major          an action that workflows run changes          let a person approve it
//	container           medium         a Dockerfile or a compose file changes        check what it runs and exposes
//	hook                major          a git hook or its configuration changes       let a person approve it
//	owners              major          the list of required reviewers changes        let a person approve it
//	automation          major          a bot that makes or merges changes is set up  let a person approve it
//	autorun             major          an editor, a shell or a development           let a person approve it
//	                    (minor: tasks  container runs something by itself
//	                    that wait)
//	agent-instructions  major          instructions of coding agents change          let a person approve it
//	mcp                 major          tools of coding agents change                 let a person approve it
//	rgpt                major          RocketGPT's own configuration changes         let a person approve it
//	install-script      major          a package runs something at its install       remove it, or approve it
//	                    (medium: a manifest that cannot be read)
//	build-backend       major          another program builds the package            check that program
//	                    (medium: what
//	                    it requires)
//	build-script        medium         a build starts to run programs, or loads      check the new lines
//	                                   something from the network
//	wrapper             major          a program that loads a build tool changes     compare its checksum
//	                    (medium: the
//	                    version)
//	registry            major          packages come from another place              check that place
//	                    (minor: other settings of the file)
//
// In workflows and actions of GitHub, Forgejo and Gitea, also what is new:
//
//	workflow-invalid    medium         it cannot be parsed, or breaks the syntax     correct it
//	workflow-unread     medium         it is too large or complex to be examined     split it
//	workflow-lint       minor          actionlint has a new complaint                correct it
//	unpinned-action     medium         an action without a full commit id            pin it
//	pull-request-target major          code of strangers runs with secrets           do not check it out
//	                    (medium: only
//	                    the trigger)
//	permissions         major          the token may write more                      grant less
//	                    (medium: of a new
//	                    workflow, or unset)
//	script-injection    major          text of strangers becomes code                pass it by env
//	                    (medium: of users
//	                    with access)
//	self-hosted         major          a job runs on a machine of the project        use a hosted runner
//	secret              medium         a secret is used that was not used            check that it is needed
//	                    (major: all)
//	remote-script       medium         a download is run unseen                      check its checksum
package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Name is the name of the guard.
const Name = "workflow"

// Guard finds changes of files that run by themselves.
var Guard change.Guard = guard{}

// The limits of what is parsed. A file over them has a finding.
const (
	maxWorkflow  = 256 << 10 // bytes of one workflow
	maxWorkflows = 1 << 20   // bytes of all workflows of a change
	maxManifest  = 1 << 20   // bytes of a package.json
)

type guard struct{}

func (guard) Name() string { return Name }

// Judge implements change.Guard.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	j := &judge{}
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		j.file(f)
	}
	slices.SortStableFunc(j.found, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return j.found, nil
}

// judge collects the findings about a change.
type judge struct {
	found  []change.Finding
	parsed int // bytes of workflows
}

// add records a finding about a file.
func (j *judge) add(rule string, severity contract.Severity, path string, line int, format string, args ...any) {
	j.found = append(j.found, change.Finding{
		Guard: Name, Rule: rule, Severity: severity, Path: path, Line: line, Message: fmt.Sprintf(format, args...),
	})
}

// file examines one file: by its path, and by its content if that decides.
func (j *judge) file(f change.File) {
	if f.Before.Digest == f.After.Digest && f.Before.Mode == f.After.Mode && len(f.Paths()) == 1 {
		return
	}
	for _, p := range f.Paths() {
		j.kind(f, p)
	}
	lower := strings.ToLower(f.Path)
	switch {
	case f.Deleted():
	case isWorkflow(lower):
		j.workflow(f, lower)
	default:
		j.lines(f, lower)
		j.manifest(f, lower)
	}
}
