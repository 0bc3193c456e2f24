package commits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

const (
	// gitTime is the time limit of one git command; the first clone of a large repository is the
	// slowest.
	gitTime = 10 * time.Minute
	// gitOutput is the maximum number of bytes read from a git command. It limits this program's
	// memory; the log of a pick is the largest output.
	gitOutput = 256 << 20
	// CommandGrace is the time that a cancelled command has to close its pipes.
	CommandGrace = 5 * time.Second
)

// Git runs git in a directory, without system and user configuration, and returns its output.
func Git(ctx context.Context, dir string, args ...string) (string, error) {
	return GitInput(ctx, dir, "", args...)
}

// GitInput is Git with standard input.
func GitInput(ctx context.Context, dir, stdin string, args ...string) (string, error) {
	return gitWith(ctx, dir, stdin, nil, args...)
}

// gitWith is Git with standard input and additional environment variables.
func gitWith(ctx context.Context, dir, stdin string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{
		"-c", "safe.directory=*", "-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0",
		"-c", "advice.detachedHead=false", "--literal-pathspecs",
	}, args...)...)
	cmd.Dir, cmd.WaitDelay = dir, CommandGrace
	cmd.Env = append(withoutGit(os.Environ()), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	cmd.Env = append(cmd.Env, env...)
	out, errs := &Bounded{Most: gitOutput}, &Bounded{Most: 64 << 10}
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s in %s: %w: %s", strings.Join(args, " "), dir, err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// withoutGit removes variables that point git to another repository, such as those set in hooks.
func withoutGit(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// errTooMuch fails a command whose output exceeds the limit.
var errTooMuch = errors.New("the output exceeds the limit")

// Bounded collects a command's output, and fails the command if it exceeds the limit. Only the
// command writes to it; it is read after the command exits.
type Bounded struct {
	bytes.Buffer
	Most int
}

// Write implements io.Writer.
func (b *Bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.Most {
		return 0, errTooMuch
	}
	return b.Buffer.Write(p)
}

// File modes in a git tree.
const (
	modeNone    = "000000"
	modeFile    = "100644"
	modeExec    = "100755"
	modeLink    = "120000"
	modeGitlink = "160000"
)

// change is a commit's change to one path. A rename is two changes: a deletion and an addition.
type change struct {
	path             string
	oldMode, newMode string
	oldBlob, newBlob string
}

func (c change) added() bool   { return c.oldMode == modeNone }
func (c change) deleted() bool { return c.newMode == modeNone }

// changesOf returns the changes between two commits, ordered by path.
func changesOf(ctx context.Context, repo, from, to string) ([]change, error) {
	out, err := Git(ctx, repo, "diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", "--no-commit-id", from, to)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	var all []change
	for i := 0; i+1 < len(fields); i += 2 {
		parts := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(parts) != 5 {
			return nil, fmt.Errorf("git diff-tree between %s and %s printed %q, which is not a file change", from, to, fields[i])
		}
		all = append(all, change{path: fields[i+1], oldMode: parts[0], newMode: parts[1], oldBlob: parts[2], newBlob: parts[3]})
	}
	return all, nil
}

// blob returns the content of a file. A file of more than most bytes is an error.
func blob(ctx context.Context, repo, id string, most int) (string, error) {
	out, err := GitInput(ctx, repo, id+"\n", "cat-file", "--batch")
	if err != nil {
		return "", err
	}
	header, text, _ := strings.Cut(out, "\n")
	fields := strings.Fields(header)
	if len(fields) != 3 || fields[1] != "blob" {
		return "", fmt.Errorf("the repository does not have it: %s", header)
	}
	text = strings.TrimSuffix(text, "\n")
	if len(text) > most {
		return "", fmt.Errorf("it has %d bytes, but the limit of the tools is %d", len(text), most)
	}
	return text, nil
}

// hunk is a run of changed lines, counted from 0: old[oldFrom:oldTo] became new[newFrom:newTo].
type hunk struct{ oldFrom, oldTo, newFrom, newTo int }

// hunksOf returns the differences between two blobs, in line order. Only the headers of git's diff
// are used; the lines themselves are read from the blobs, byte for byte.
func hunksOf(ctx context.Context, repo, from, to string) ([]hunk, error) {
	out, err := Git(ctx, repo, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--text", "--unified=0", from, to)
	if err != nil {
		return nil, err
	}
	files, _, err := gitdiff.Parse(strings.NewReader(out))
	if err != nil {
		return nil, fmt.Errorf("git diff printed an invalid diff: %w", err)
	}
	var all []hunk
	for _, f := range files {
		for _, t := range f.TextFragments {
			h := hunk{}
			h.oldFrom, h.oldTo = span(int(t.OldPosition), int(t.OldLines))
			h.newFrom, h.newTo = span(int(t.NewPosition), int(t.NewLines))
			all = append(all, h)
		}
	}
	return all, nil
}

// span returns the lines of a hunk, counted from 0. If the hunk has no lines, start is the line
// before it.
func span(start, lines int) (from, to int) {
	if lines > 0 {
		start--
	}
	return start, start + lines
}

// linesOf splits a text after each line feed, as git does.
func linesOf(text string) []string { return slices.Collect(strings.Lines(text)) }
