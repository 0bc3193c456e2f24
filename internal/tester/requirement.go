package tester

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Origin is the state that workspaces start from, and how its repository is set up.
type Origin struct {
	Repo     contract.Repo // with its tree
	Settings environment.Settings
	// Source is where a stored setup in Settings comes from; empty if there is none.
	Source environment.Source
	// Unproven means that an agent proposed that setup, and no baseline has proven it yet.
	Unproven bool
	// Scope identifies the commits whose setups trust each other.
	Scope string
	// Environment is the digest of the state's own environment, as soon as it is known. Empty: it
	// is not known, or needs no setup.
	Environment string
	// Owner is the only user of environments that changes of the state require.
	Owner string
}

// Requirement is the environment that a workspace needs.
type Requirement struct {
	Recipe    environment.Recipe
	Digest    string // empty: no setup is needed
	Scope     string // commits that may share the result: all of a repository, or those of Origin.Scope
	Workspace contract.Workspace
	Unproven  bool // an agent proposed the setup, and no baseline has proven it yet
	Private   bool // it belongs to a change, for Origin.Owner on this host only
}

// Require determines the environment that a checkout of a workspace needs.
func (h *Host) Require(ctx context.Context, o Origin, ws contract.Workspace, checkout string) (Requirement, error) {
	w := Requirement{Workspace: ws}
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot open the checkout")
	}
	defer root.Close()
	facts, err := h.FactsOf(ctx, o.Repo)
	if err != nil {
		return w, err
	}
	tools, err := h.ToolsOf(ctx, o.Repo, o.Settings)
	if err != nil {
		return w, err
	}
	if w.Recipe, err = environment.Find(root, o.Settings, tools, facts); err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot read the checkout")
	}
	if o.Source != "" {
		w.Recipe.Source, w.Unproven = o.Source, o.Unproven
	}
	if len(w.Recipe.Setup) == 0 {
		return w, nil
	}
	digest, err := w.Recipe.Digest(func(name string) (io.ReadCloser, error) { return openInput(root, name) }, tools)
	if err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot read the checkout")
	}
	// A repository's setup runs its own code, so no other repository may use the result, nor
	// another branch if that code goes beyond the declared inputs. The result for a change is for
	// its owner only.
	w.Scope = o.Repo.URL
	if w.Recipe.RunsCode || o.Source != "" {
		w.Scope = DigestOf(o.Repo.URL, o.Scope)
	}
	w.Digest = DigestOf(w.Scope, digest)
	if ws.Tree != o.Repo.Tree && w.Digest != o.Environment {
		w.Digest, w.Private = DigestOf(w.Scope, digest, o.Owner), true
	}
	return w, nil
}

// openInput opens a file whose content determines an environment.
func openInput(root *os.Root, name string) (io.ReadCloser, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return root.Open(name)
}

// FactsOf returns facts from git about a base commit.
func (h *Host) FactsOf(ctx context.Context, repo contract.Repo) (environment.Facts, error) {
	key := repo.URL + "@" + repo.Base
	if known, ok := h.Facts.Load(key); ok {
		return known.(environment.Facts), nil //nolint:forcetypeassert // nothing else is stored
	}
	version, err := h.Workspaces.Version(ctx, repo.URL, repo.Base)
	if err != nil {
		return environment.Facts{}, err
	}
	made, err := h.Workspaces.CommitTime(ctx, repo.URL, repo.Base)
	if err != nil {
		return environment.Facts{}, err
	}
	facts := environment.Facts{Version: version, Time: made}
	h.Facts.Store(key, facts)
	return facts, nil
}
