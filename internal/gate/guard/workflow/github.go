package workflow

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// fact is a danger in a workflow. Facts with the same key are the same danger, wherever it is.
type fact struct {
	rule     string
	severity contract.Severity
	line     int
	says     string
}

// facts are the dangers of a workflow or an action.
type facts struct {
	by     map[string][]fact
	writes map[string]int // the scopes that a token may write, with a line; "all" for all
	// limited says that all jobs have permissions, their own or the workflow's.
	limited bool
	jobs    bool // it has jobs
}

func (s *facts) add(key, rule string, severity contract.Severity, line int, format string, args ...any) {
	s.by[rule+" "+key] = append(s.by[rule+" "+key], fact{rule, severity, line, fmt.Sprintf(format, args...)})
}

// workflow compares the dangers of a workflow or an action before and after the change.
func (j *judge) workflow(f change.File, lower string) {
	size := len(f.After.Content)
	if !f.After.Regular() || f.After.Unread || size > maxWorkflow || j.parsed+size > maxWorkflows {
		j.add("workflow-unread", contract.SeverityMedium, f.Path, 0, "%s is too large to be examined (%d bytes), or not a file; split it", change.Clean(f.Path), f.After.Size)
		return
	}
	j.parsed += size
	root, err := parse(f.After.Content)
	if err != nil {
		rule := "workflow-invalid"
		if errors.Is(err, errComplex) {
			rule = "workflow-unread"
		}
		j.add(rule, contract.SeverityMedium, f.Path, 0, "%s cannot be examined: %s; correct it", change.Clean(f.Path), change.Clean(err.Error()))
		return
	}
	after, before := read(root), read(nil)
	existed := false // in a form that can be compared
	if f.Before.Regular() && len(f.Before.Content) <= maxWorkflow {
		if old, err := parse(f.Before.Content); err == nil {
			before, existed = read(old), true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after.by)) {
		now, old := after.by[key], len(before.by[key])
		for i := old; i < len(now); i++ {
			j.add(now[i].rule, now[i].severity, f.Path, now[i].line, "%s", now[i].says)
		}
	}
	j.permissions(f, before, after)
	if strings.HasPrefix(lower, ".github/workflows/") {
		j.lint(f, existed)
	}
}

// permissions compares what the tokens of a workflow may write.
func (j *judge) permissions(f change.File, before, after *facts) {
	severity, what := contract.SeverityMajor, "may now write"
	if f.Added() {
		severity, what = contract.SeverityMedium, "may write"
	}
	name := change.Clean(f.Path)
	for _, scope := range slices.Sorted(maps.Keys(after.writes)) {
		_, had := before.writes[scope]
		_, all := before.writes["all"]
		switch {
		case had || all:
		case scope == "all":
			j.add("permissions", contract.SeverityMajor, f.Path, after.writes[scope], "the token of %s may write everything (write-all); grant only what it needs", name)
		default:
			j.add("permissions", severity, f.Path, after.writes[scope], "the token of %s %s %s; check that it is needed", name, what, change.Clean(scope))
		}
	}
	if before.jobs && before.limited && after.jobs && !after.limited {
		j.add("permissions", contract.SeverityMedium, f.Path, 0, "a job of %s has no permissions any more, so that its token gets the default ones of the repository; restore them", name)
	}
}

// read lists the dangers of a workflow or an action.
func read(root *yaml.Node) *facts {
	s := &facts{by: map[string][]fact{}, writes: map[string]int{}}
	s.grants(field(root, "permissions"))
	top := field(root, "permissions") != nil
	s.limited = true
	each(field(root, "jobs"), func(id, job *yaml.Node) {
		s.jobs = true
		own := field(job, "permissions")
		s.grants(own)
		s.limited = s.limited && (top || own != nil)
		s.runner(id, job)
		s.uses(field(job, "uses"))
		if secrets := field(job, "secrets"); scalar(secrets) == "inherit" {
			s.add(id.Value, "secret", contract.SeverityMedium, secrets.Line, "the job %s passes all secrets on; name those that are needed", change.Clean(id.Value))
		}
		for _, key := range []string{"container", "services"} {
			s.images(field(job, key))
		}
		s.steps(field(job, "steps"))
	})
	runs := field(root, "runs") // of an action
	s.steps(field(runs, "steps"))
	s.target(root)
	s.secrets(root)
	return s
}

// grants records what a token may write.
func (s *facts) grants(n *yaml.Node) {
	if scalar(n) == "write-all" {
		s.writes["all"] = n.Line
	}
	each(n, func(scope, level *yaml.Node) {
		if scalar(level) == "write" {
			s.writes[scope.Value] = level.Line
		}
	})
}

// runner looks for machines that are not GitHub's.
func (s *facts) runner(id, job *yaml.Node) {
	on := field(job, "runs-on")
	own := field(on, "group") != nil
	scalars(on, func(n *yaml.Node) { own = own || strings.Contains(strings.ToLower(n.Value), "self-hosted") })
	if own && on != nil {
		s.add(id.Value, "self-hosted", contract.SeverityMajor, on.Line, "the job %s runs on a machine of the project, where code of a pull request can stay; use a hosted runner",
			change.Clean(id.Value))
	}
}

var fullCommit = regexp.MustCompile(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// uses looks for an action or a workflow of another repository that can change later.
func (s *facts) uses(n *yaml.Node) {
	spec := scalar(n)
	if spec == "" || strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "../") {
		return
	}
	if image, ok := strings.CutPrefix(spec, "docker://"); ok {
		if !strings.Contains(image, "@sha256:") {
			s.add(spec, "unpinned-action", contract.SeverityMedium, n.Line, "the image %s can change later; pin it by its digest", change.Clean(spec))
		}
		return
	}
	if _, ref, _ := strings.Cut(spec, "@"); !fullCommit.MatchString(ref) {
		s.add(spec, "unpinned-action", contract.SeverityMedium, n.Line, "the action %s can change later; pin it by a full commit id", change.Clean(spec))
	}
}

// images looks for actions' images; those of containers are not actions, but run with the same secrets.
func (s *facts) images(n *yaml.Node) {
	check := func(image *yaml.Node) {
		if spec := scalar(image); spec != "" && !strings.Contains(spec, "@sha256:") && !strings.Contains(spec, "${{") {
			s.add(spec, "unpinned-action", contract.SeverityMinor, image.Line, "the image %s can change later; pin it by its digest", change.Clean(spec))
		}
	}
	check(n)
	check(field(n, "image"))
	each(n, func(_, service *yaml.Node) { check(field(service, "image")) })
}

// steps looks at the steps of a job or an action.
func (s *facts) steps(n *yaml.Node) {
	n = follow(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return
	}
	for _, step := range n.Content {
		step = follow(step)
		s.uses(field(step, "uses"))
		if run := field(step, "run"); run != nil && run.Kind == yaml.ScalarNode {
			s.injection(run)
			for _, at := range remoteScript.FindAllStringIndex(run.Value, -1) {
				text := run.Value[at[0]:at[1]]
				s.add(text, "remote-script", contract.SeverityMedium, run.Line+textLine(run, at[0]), "%s runs what it loads from the network; compare its checksum first", change.Clean(text))
			}
		}
		if strings.Contains(scalar(field(step, "uses")), "/github-script@") {
			if script := field(field(step, "with"), "script"); script != nil && script.Kind == yaml.ScalarNode {
				s.injection(script)
			}
		}
	}
}

var (
	spacesOrQuotes = regexp.MustCompile(`\s+|\[\s*['"]|['"]\s*\]`)
	safeCall       = regexp.MustCompile(`\b(?:contains|startswith|endswith)\([^()]*\)`)
	// stranger matches what a stranger can write, and access what only users with access can.
	stranger = regexp.MustCompile(`\bgithub\.(?:head_ref\b|event\b[\w.*\[\]-]*)`)
	access   = regexp.MustCompile(`\b(?:github\.event\.inputs\.|inputs\.)|\bgithub\.(?:ref_name|ref|base_ref)\b`)
	// harmless are the ends of values that consist of digits or are chosen by GitHub or the owner.
	harmless = regexp.MustCompile(`(?:\.(?:number|id|node_id|sha|action|run_id|run_number|run_attempt|merged|draft|conclusion|status|state|before|after|created_at|updated_at|` +
		`schedule|merge_commit_sha|head_sha|workflow_id|login|html_url|url|full_name|size|count|comments|private|fork|type))$|` +
		`^github\.event\.(?:repository|organization|enterprise|installation|inputs|sender)\.`)
)

// injection looks for expressions that become a part of a script.
func (s *facts) injection(script *yaml.Node) {
	expressions(script, func(text string, line int) {
		plain := spacesOrQuotes.ReplaceAllStringFunc(strings.ToLower(text), func(m string) string {
			if strings.HasPrefix(m, "[") {
				return "."
			}
			return ""
		})
		plain = safeCall.ReplaceAllString(plain, "")
		key := change.Clean(strings.TrimSpace(text))
		for _, m := range stranger.FindAllString(plain, -1) {
			if !harmless.MatchString(strings.TrimRight(m, ".[]*")) {
				s.add(key, "script-injection", contract.SeverityMajor, line, "anyone can write %s, which becomes a part of a script; pass it by an environment variable", key)
				return
			}
		}
		if access.MatchString(plain) {
			s.add(key, "script-injection", contract.SeverityMedium, line, "%s becomes a part of a script; pass it by an environment variable", key)
		}
	})
}

// headRef matches what names the code of a pull request, in lower case.
var headRef = regexp.MustCompile(`github\.head_ref|pull_request\.head|pull_request\.merge_commit|workflow_run\.head|refs/pull/|gh\s+pr\s+checkout|event\.number|pull_request\.number|fetch\s.*\bpull/`)

// target looks for events that give secrets to a run for a stranger's pull request.
func (s *facts) target(root *yaml.Node) {
	line := startedByStrangers(field(root, "on"))
	if line == 0 {
		return
	}
	head := 0
	each(field(root, "jobs"), func(_, job *yaml.Node) {
		steps := field(job, "steps")
		if steps == nil || steps.Kind != yaml.SequenceNode {
			return
		}
		for _, step := range steps.Content {
			head = max(head, checkout(step))
		}
	})
	if head > 0 {
		s.add("head", "pull-request-target", contract.SeverityMajor, head, "code of a pull request is checked out in a run that has secrets; use the event pull_request, or do not check it out")
		return
	}
	s.add("event", "pull-request-target", contract.SeverityMedium, line, "strangers start runs that have secrets; check that they run none of their code")
}

// startedByStrangers returns the line of an event of strangers that has secrets, or 0.
func startedByStrangers(on *yaml.Node) (line int) {
	note := func(n *yaml.Node) {
		if n != nil && (n.Value == "pull_request_target" || n.Value == "workflow_run") {
			line = n.Line
		}
	}
	switch {
	case on == nil:
	case on.Kind == yaml.SequenceNode:
		for _, n := range on.Content {
			note(follow(n))
		}
	case on.Kind == yaml.ScalarNode:
		note(on)
	default:
		each(on, func(event, _ *yaml.Node) { note(event) })
	}
	return line
}

// checkout returns the line on which a step checks out the code of a pull request, or 0.
func checkout(step *yaml.Node) int {
	if run := field(step, "run"); run != nil {
		if text := strings.ToLower(scalar(run)); headRef.MatchString(text) && checksOut.MatchString(text) {
			return run.Line
		}
	}
	if !strings.Contains(strings.ToLower(scalar(field(step, "uses"))), "checkout") {
		return 0
	}
	for _, key := range []string{"ref", "repository"} {
		if n := field(field(step, "with"), key); n != nil && headRef.MatchString(strings.ToLower(scalar(n))) {
			return n.Line
		}
	}
	return 0
}

// checksOut matches commands that bring code into the directory, in lower case.
var checksOut = regexp.MustCompile(`\b(?:checkout|switch|fetch|clone|pull|worktree|reset)\b`)

var (
	secretName = regexp.MustCompile(`(?i)\bsecrets\s*(?:\.\s*([\w-]+)|\[\s*'([^']*)'\s*\])`)
	allSecrets = regexp.MustCompile(`(?i)\btojson\(\s*secrets\s*\)|\bsecrets\s*\[\s*[^'\s]`)
)

// secrets lists the secrets that are used.
func (s *facts) secrets(root *yaml.Node) {
	seen := map[string]bool{}
	scalars(root, func(n *yaml.Node) {
		if !strings.Contains(strings.ToLower(n.Value), "secrets") {
			return
		}
		if allSecrets.MatchString(n.Value) && !seen["*"] {
			seen["*"] = true
			s.add("*", "secret", contract.SeverityMajor, n.Line, "all secrets are used at once; name those that are needed")
		}
		for _, m := range secretName.FindAllStringSubmatch(n.Value, -1) {
			name := strings.ToUpper(m[1] + m[2])
			if seen[name] || name == "GITHUB_TOKEN" {
				continue
			}
			seen[name] = true
			s.add(name, "secret", contract.SeverityMedium, n.Line, "the secret %s is used, which was not used here; check that it is needed", change.Clean(name))
		}
	})
}
