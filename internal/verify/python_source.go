package verify

import (
	"context"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// pythonInstalled exits with 0 if each package in src is already imported from the work tree, by an
// editable installation. Any other copy would be tested instead of the change.
const pythonInstalled = `import os, sys
sys.path = [p for p in sys.path if p not in ("", ".")]
import importlib.util as u
src = os.path.realpath(sys.argv[1])
def here(name):
    try:
        spec = u.find_spec(name)
    except (ImportError, ValueError):
        return False
    places = list(spec.submodule_search_locations or []) + [spec.origin or ""] if spec else []
    return any(os.path.realpath(p).startswith(src + os.sep) for p in places)
found = []
for e in os.scandir(src):
    if e.is_dir() and os.path.exists(os.path.join(e.path, "__init__.py")): found.append(e.name)
    elif e.is_file() and e.name.endswith(".py"): found.append(e.name[:-3])
sys.exit(not (found and all(here(n) for n in found if n.isidentifier())))`

// withSource adds the sources to the path of a Python command if they are not installed from the
// checkout.
func (r *run) withSource(ctx context.Context, inv checks.Invocation) (checks.Invocation, error) {
	if inv.Source == "" {
		return inv, nil
	}
	if r.installed == nil {
		result, err := r.command(ctx, checks.Invocation{Args: []string{"python3", "-c", pythonInstalled, inv.Source}, Dir: inv.Dir, Env: inv.Env}, nil)
		if err != nil {
			return inv, err
		}
		ok := result.OK()
		r.installed = &ok
	}
	if !*r.installed {
		inv.Env = checks.WithEnv(inv.Env, map[string]string{"PYTHONPATH": strings.TrimSuffix(inv.Source+":"+inv.Env["PYTHONPATH"], ":")})
	}
	return inv, nil
}
