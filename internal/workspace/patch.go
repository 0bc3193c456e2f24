package workspace

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

const (
	// maxHunkBytes limits how much the only hunk of a changed file removes and adds. For a large
	// file with small changes far apart, git's patch is shorter.
	maxHunkBytes = 128 << 10
	// hunkContext is how many lines around a change a patch shows, as git does.
	hunkContext = 3
)

// patchPath matches file names that appear unquoted in a patch.
var patchPath = regexp.MustCompile(`^[ !#-\[\]-~]+$`)

// plainChange is change without a git process, for text files of moderate size. Both the choice and
// the patch depend only on the two trees, so every host produces the same patch.
func (r *mirror) plainChange(ctx context.Context, baseTree, tree string, limit limits) (change, error) {
	var patch bytes.Buffer
	count := 0
	err := r.changedFiles(baseTree, tree, "", func(c fileChange) error {
		if ctx.Err() != nil {
			return wrapf(context.Cause(ctx), "the comparison of a workspace with its base was stopped")
		}
		count++
		if err := limit.check(count, c.path); err != nil {
			return err
		}
		if err := r.writeFilePatch(&patch, c); err != nil {
			return err
		}
		return limit.checkPatch(patch.Len())
	})
	if err != nil {
		return change{}, err
	}
	return change{patch: patch.Bytes()}, nil
}

// writeFilePatch writes a patch as git does with --full-index --binary, except that a changed file
// has only one hunk.
func (r *mirror) writeFilePatch(w *bytes.Buffer, c fileChange) error {
	if !patchPath.MatchString(c.path) {
		return errNeedsGit
	}
	if c.old.mode != "" && c.new.mode != "" && (c.old.mode == modeLink) != (c.new.mode == modeLink) {
		return errNeedsGit
	}
	before, err := r.text(c.old)
	if err != nil {
		return err
	}
	after, err := r.text(c.new)
	if err != nil {
		return err
	}
	writePatchHead(w, c)
	if c.old.id == c.new.id || len(before)+len(after) == 0 {
		return nil
	}
	// A tab ends a name that contains a space.
	end := "\n"
	if strings.Contains(c.path, " ") {
		end = "\t\n"
	}
	from, to := "a/"+c.path+end, "b/"+c.path+end
	if c.old.mode == "" {
		from = "/dev/null\n"
	}
	if c.new.mode == "" {
		to = "/dev/null\n"
	}
	fmt.Fprintf(w, "--- %s+++ %s", from, to)
	return writeHunk(w, before, after, c.old.mode != "" && c.new.mode != "")
}

// text returns the lines of a file if a patch can show them.
func (r *mirror) text(e treeEntry) ([]string, error) {
	if e.mode == "" {
		return nil, nil
	}
	content, err := r.object(kindBlob, e.id)
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return nil, errNeedsGit
	}
	lines := strings.SplitAfter(string(content), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}

func writePatchHead(w *bytes.Buffer, c fileChange) {
	fmt.Fprintf(w, "diff --git a/%s b/%s\n", c.path, c.path)
	none := strings.Repeat("0", sha1Length)
	switch {
	case c.old.mode == "":
		fmt.Fprintf(w, "new file mode %s\nindex %s..%s\n", c.new.mode, none, c.new.id)
	case c.new.mode == "":
		fmt.Fprintf(w, "deleted file mode %s\nindex %s..%s\n", c.old.mode, c.old.id, none)
	case c.old.mode == c.new.mode:
		fmt.Fprintf(w, "index %s..%s %s\n", c.old.id, c.new.id, c.old.mode)
	default:
		fmt.Fprintf(w, "old mode %s\nnew mode %s\n", c.old.mode, c.new.mode)
		if c.old.id != c.new.id {
			fmt.Fprintf(w, "index %s..%s\n", c.old.id, c.new.id)
		}
	}
}

// writeHunk writes one hunk: from the first line that differs to the last one.
func writeHunk(w *bytes.Buffer, before, after []string, bounded bool) error {
	same, tail := sameEnds(before, after)
	lead, trail := min(same, hunkContext), min(tail, hunkContext)
	start := same - lead
	gone, come := before[same:len(before)-tail], after[same:len(after)-tail]
	if bounded && bytesOf(gone)+bytesOf(come) > maxHunkBytes {
		return errNeedsGit
	}
	fmt.Fprintf(w, "@@ -%s +%s @@\n", hunkRange(start, lead+len(gone)+trail), hunkRange(start, lead+len(come)+trail))
	writeLines(w, ' ', before[start:same])
	writeLines(w, '-', gone)
	writeLines(w, '+', come)
	writeLines(w, ' ', before[len(before)-tail:len(before)-tail+trail])
	return nil
}

// sameEnds returns how many lines at the beginning and at the end of two texts are the same.
func sameEnds(before, after []string) (head, tail int) {
	most := min(len(before), len(after))
	for head < most && before[head] == after[head] {
		head++
	}
	for tail < most-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	return head, tail
}

// hunkRange counts lines from 1; an empty range begins before its position.
func hunkRange(start, count int) string {
	if count > 0 {
		start++
	}
	return fmt.Sprintf("%d,%d", start, count)
}

func writeLines(w *bytes.Buffer, sign byte, lines []string) {
	for _, line := range lines {
		w.WriteByte(sign)
		w.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func bytesOf(lines []string) int {
	sum := 0
	for _, line := range lines {
		sum += len(line)
	}
	return sum
}

// check rejects the file with which a change exceeds the limits.
func (l limits) check(count int, path string) error {
	if count > l.files {
		return tooLarge("more than %d files changed; remove generated files or list them in .gitignore", l.files)
	}
	if l.size != nil && l.size(path) > l.fileSize {
		return tooLarge("the file %s is larger than %d MB; remove it or list it in .gitignore", path, l.fileSize>>20)
	}
	return nil
}

// checkPatch rejects a patch over the limit.
func (l limits) checkPatch(size int) error {
	if int64(size) > l.patch {
		return tooLarge("the changes total more than %d MB; remove generated files or list them in .gitignore", l.patch>>20)
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return fault.Wrap(ErrTooLarge, contract.ClassSafety, contract.CodeForbidden, format, args...)
}
