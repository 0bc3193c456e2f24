package standalone

import (
	"context"
	"errors"
	"net"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

// Place is a checkout of a state with its environment, in which commands run as those of checks do.
type Place struct {
	Sandbox sandbox.Runner
	// Command has everything except what to run. Its home is empty except for the environment.
	Command sandbox.Command
	// Network gives commands access to hosts, by name, through the proxy.
	Network func(hosts []string) func(net.Listener) []string
}

// At checks out a commit with its environment, calls do, and returns the patch from the commit to
// what is in the checkout then. If the environment cannot be set up, the report has the failure, and
// do is not called.
func At(ctx context.Context, o Options, do func(context.Context, Place) error) (patch []byte, r Report, err error) {
	if o.Commit == "" {
		return nil, r, errors.New("a commit is required")
	}
	v := newVerification(o)
	if err := v.open(ctx); err != nil {
		return nil, v.report, err
	}
	defer v.close(ctx)
	if err := v.openSandbox(ctx); err != nil {
		return nil, v.report, err
	}
	if v.settings.Environment != nil {
		if ok, err := v.prepareAll(ctx); !ok || err != nil {
			return nil, v.report, err
		}
	}
	patch, err = v.at(ctx, do)
	return patch, v.report, err
}

// at calls do in a checkout.
func (v *verification) at(ctx context.Context, do func(context.Context, Place) error) ([]byte, error) {
	dir, err := v.host.Workspaces.Open(ctx, v.ws, v.key+"/work")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	cache, err := v.host.OpenCache(v.ws.Repo, v.id, "work")
	if err != nil {
		return nil, err
	}
	defer func() { _ = cache.Discard() }() // a later sweep removes the rest
	cenv, err := v.commandEnv(false)
	if err != nil {
		return nil, err
	}
	defer cenv.Close()
	if cenv.Home, cenv.Tmp, err = cache.Home("work"); err != nil {
		return nil, err
	}
	if err := dir.Ignore(cenv.Unignored()); err != nil {
		return nil, err
	}
	p := Place{Sandbox: v.host.Sandbox, Command: v.host.Command(cache), Network: v.host.Egress("rgpt eval", "the driver's hosts").Serve}
	p.Command.Root, p.Command.CACertificates = dir.Path(), v.host.Proxy.CACertificate()
	cenv.Outfit(&p.Command)
	if err := do(ctx, p); err != nil {
		return nil, err
	}
	saved, err := dir.Save(ctx)
	if err != nil || saved.Patch == "" {
		return nil, err
	}
	patch, err := v.patches.Get(ctx, saved.Patch)
	if err != nil {
		return nil, fault.Of(err)
	}
	_, err = setup.BuildCaches(v.DataDir).RemoveRun(v.id)
	return patch, err
}
