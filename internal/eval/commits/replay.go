package commits

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rocketgpt/orchestrator/internal/tool"
)

// replayLocally carries out calls with the product's own tools on the original files. If the result
// differs from the commit, it returns the first such path and the reason.
func replayLocally(ctx context.Context, files []versions, calls []Call) (path, why string, err error) {
	dir, err := os.MkdirTemp("", "rgpt-oracle-")
	if err != nil {
		return "", "", fmt.Errorf("create a directory for the rehearsal: %w", err)
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", fmt.Errorf("open the directory of the rehearsal: %w", err)
	}
	defer root.Close()
	for _, v := range files {
		if v.added() {
			continue
		}
		if err := put(root, v); err != nil {
			return v.path, "cannot be written: " + err.Error(), nil
		}
	}
	path, why, err = perform(ctx, dir, calls)
	if err != nil || why != "" {
		return path, why, err
	}
	for _, v := range files {
		if why := differs(root, v); why != "" {
			return v.path, why, nil
		}
	}
	return "", "", nil
}

// put writes a file as it was before the commit.
func put(root *os.Root, v versions) error {
	if err := root.MkdirAll(filepath.Dir(v.path), 0o755); err != nil {
		return err
	}
	return root.WriteFile(v.path, []byte(v.before), permOf(v.oldMode))
}

func permOf(mode string) fs.FileMode {
	if mode == modeExec {
		return 0o755
	}
	return 0o644
}

// perform carries out calls in a directory, and returns the path and reason of a rejected call.
func perform(ctx context.Context, dir string, calls []Call) (path, why string, err error) {
	set, err := tool.Builtin().Set()
	if err != nil {
		return "", "", err
	}
	for _, c := range calls {
		args, err := json.Marshal(c.Arguments)
		if err != nil {
			return "", "", err
		}
		r, err := set.Call(ctx, tool.Env{Root: dir}, c.Name, args)
		if err != nil {
			return "", "", fmt.Errorf("rehearse %s of %q: %w", c.Name, c.Arguments["path"], err)
		}
		if !r.OK {
			return c.Arguments["path"], "is rejected by " + c.Name + ": " + r.Text, nil
		}
	}
	return "", "", nil
}

// differs describes how a file differs from the commit; empty if it does not.
func differs(root *os.Root, v versions) string {
	info, err := root.Lstat(v.path)
	switch {
	case v.deleted() && (err != nil || info.IsDir()):
		return "" // it was deleted, or a directory has its name
	case v.deleted():
		return "still exists after the calls"
	case err != nil:
		return "does not exist after the calls: " + err.Error()
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o100 != permOf(v.newMode)&0o100:
		return "has a different mode after the calls"
	}
	text, err := root.ReadFile(v.path)
	if err != nil || string(text) != v.after {
		return "has different content after the calls"
	}
	return ""
}
