package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitTime bounds the question whether git tracks something.
const gitTime = 10 * time.Second

// Tracked reports whether git tracks a path, or something below it, in the repository
// that it lies in; outside of any it does not. Whoever made the repository made that
// then. Git is told to run nothing that the repository's own configuration names, and
// to take no folder of the repository for another repository.
func Tracked(path string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "-C", filepath.Dir(path), "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
		"-c", "safe.directory=*", "-c", "safe.bareRepository=explicit", "ls-files", "--cached", "-z", "--", filepath.Base(path))
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	switch {
	case err == nil:
		return len(out) > 0, nil
	case ctx.Err() == nil && strings.Contains(said.String(), "not a git repository (or any"):
		return false, nil
	case errors.Is(err, exec.ErrNotFound):
		return false, errors.New("git is not installed, and says whether somebody else made it")
	}
	return false, fmt.Errorf("git does not say whether it tracks it: %w: %s", err, strings.TrimSpace(said.String()))
}
