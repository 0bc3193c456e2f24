package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// stamp distinguishes a new or changed file from an unchanged one.
type stamp struct {
	size int64
	time time.Time
}

var errEnough = errors.New("enough files")

// stamps lists the regular files that may be a command's reports. An error means that the list is
// incomplete.
func stamps(ctx context.Context, root *os.Root, globs []string) (map[string]stamp, error) {
	found := map[string]stamp{}
	for _, pattern := range globs {
		err := glob.Walk(ctx, root.FS(), path.Clean(pattern), func(p string) error {
			if len(found) >= maxReports {
				return errEnough
			}
			if info, err := root.Lstat(p); err == nil && info.Mode().IsRegular() {
				found[p] = stamp{info.Size(), info.ModTime()}
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !errors.Is(err, errEnough):
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeTooLarge, "cannot search for check reports matching %s", pattern)
		}
	}
	return found, nil
}

// clearReports removes the reports that detected commands are about to write, so that committed
// files are not mistaken for reports. Files that match a configured pattern stay, as they may be
// fixtures; such files count only if the command changes them.
func clearReports(root *os.Root, globs []string) error {
	for _, p := range globs {
		if path.Dir(p) != output.ScratchDir {
			continue
		}
		if err := checks.MakeScratch(root); err != nil {
			return err
		}
		for _, old := range []string{p, strings.TrimSuffix(p, path.Ext(p))} {
			if err := root.RemoveAll(old); err != nil {
				return err
			}
		}
	}
	return nil
}

// report is the content of one file that the command wrote.
type report struct {
	path string
	data []byte
}

// newReports reads the reports that are new or changed since before. notes names the unusable ones.
func newReports(ctx context.Context, root *os.Root, globs []string, before map[string]stamp) (out []report, notes []string, err error) {
	now, err := stamps(ctx, root, globs)
	if err != nil {
		return nil, nil, err
	}
	paths := make([]string, 0, len(now))
	for p, s := range now {
		if before[p] != s {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	total := 0
	for _, p := range paths {
		data, err := output.ReadRegular(root, p, output.MaxReportBytes)
		if err == nil && total+len(data) > 4*output.MaxReportBytes {
			err = output.ErrTooLarge
		}
		if err != nil {
			notes = append(notes, fmt.Sprintf("report %s was not read: %s", output.Name(p), reason(err)))
			continue
		}
		total += len(data)
		out = append(out, report{p, data})
	}
	return out, notes, nil
}

func reason(err error) string {
	switch {
	case errors.Is(err, output.ErrTooLarge):
		return fmt.Sprintf("it is larger than %d MiB", output.MaxReportBytes>>20)
	case errors.Is(err, output.ErrNotRegular):
		return "it is not a regular file"
	}
	return "it cannot be opened"
}

// artifactFiles returns the attachments that are regular files in the checkout.
func artifactFiles(root *os.Root, s output.Paths, all []output.Attachment) []ArtifactFile {
	var out []ArtifactFile
	seen := map[string]bool{}
	for _, a := range all {
		p, ok := artifactPath(s, a.Path)
		if !ok || seen[p] {
			continue
		}
		seen[p] = true
		info, err := root.Lstat(p)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		out = append(out, ArtifactFile{Name: artifactName(p), Path: p, Type: a.Kind, Size: info.Size(), failed: a.Failed})
	}
	return out
}

// artifactPath converts a path like the paths of problems, but allows the scratch directory and
// does not shorten the path.
func artifactPath(s output.Paths, p string) (string, bool) {
	if path.IsAbs(p) {
		inside, ok := s.Inside(path.Clean(p))
		if !ok {
			return "", false
		}
		p = inside
	} else {
		p = path.Join(s.Dir, p)
	}
	return p, filepath.IsLocal(p) && p != "."
}

// artifactName returns the end of the path, which names the test and the attempt.
func artifactName(p string) string {
	parts := strings.Split(p, "/")
	if len(parts) > 2 && parts[0] == output.ScratchDir {
		parts = parts[2:]
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "attachments" })
	for n := range parts {
		parts[n] = unsafeName.ReplaceAllString(output.Name(parts[n]), "_")
	}
	return path.Join(parts[max(0, len(parts)-3):]...)
}

func uniqueNames(files []ArtifactFile) []ArtifactFile {
	seen := map[string]int{}
	for n, f := range files {
		seen[f.Name]++
		if k := seen[f.Name]; k > 1 {
			files[n].Name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(f.Name, path.Ext(f.Name)), k, path.Ext(f.Name))
		}
	}
	return files
}

var unsafeName = regexp.MustCompile(`[^\pL\pN._+-]+`)
