package activities

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// conventionBytes limits what an agent is shown of one file with the repository's own
	// instructions, and allConventionBytes of all of them.
	conventionBytes, allConventionBytes = 8 << 10, 20 << 10
	// maxConventionFile limits the size of such a file.
	maxConventionFile = 256 << 10
)

// conventionFiles are the names of files with instructions for agents, the most general first.
var conventionFiles = []string{"AGENTS.md", "CLAUDE.md"}

// repositoryView describes a repository in the task of an agent. The general part is the same for
// all agents of a run, so that providers can cache it.
type repositoryView struct {
	overview    prompt.Overview // of the base commit
	nearby      string          // files near those of the task, empty if the overview names all files
	conventions []prompt.Excerpt
	local       []prompt.Excerpt // conventions of the directories that matter for the task
}

// viewRepository describes the repository for a task that probably concerns the given paths. Local work
// fails if the index is not ready: see overviewOf.
func (a *Activities) viewRepository(ctx context.Context, run store.Run, start contract.Workspace, files, paths []string, local bool) (repositoryView, error) {
	var out repositoryView
	base := run.Settings.Repo.Workspace()
	baseFiles, err := a.Workspaces.Files(ctx, base)
	if err != nil {
		return out, err
	}
	list := func() string { return prompt.Layout(baseFiles, prompt.LayoutBytes) }
	if out.overview, err = a.overviewOf(ctx, run, mapFor{goal: goalOf(run), share: 1, local: local}, list); err != nil {
		return out, err
	}
	if nearby := prompt.Nearby(files, paths, prompt.NearbyBytes); !namesAll(out.overview.Text, nearby) {
		out.nearby = nearby
	}
	left := allConventionBytes
	if out.conventions, err = a.conventions(ctx, base, baseFiles, []string{"."}, &left); err != nil {
		return out, err
	}
	out.local, err = a.conventions(ctx, start, files, foldersOf(paths), &left)
	return out, err
}

// prompt returns the view in the form of a task.
func (v repositoryView) prompt() prompt.Repository {
	return prompt.Repository{Files: v.overview, Conventions: v.conventions, LocalConventions: v.local, Nearby: v.nearby}
}

// namesAll reports whether a listing has all lines of another one.
func namesAll(listing, lines string) bool {
	have := map[string]bool{}
	for line := range strings.Lines(listing) {
		have[strings.TrimSuffix(line, "\n")] = true
	}
	for line := range strings.Lines(lines) {
		if !have[strings.TrimSuffix(line, "\n")] {
			return false
		}
	}
	return true
}

// foldersOf returns the directories that contain the given paths, except the top, with those around
// them first.
func foldersOf(paths []string) []string {
	var all []string
	for _, p := range paths {
		for dir := path.Dir(path.Clean(p)); dir != "." && dir != "/" && !strings.HasPrefix(dir, ".."); dir = path.Dir(dir) {
			if !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	slices.Sort(all)
	return all
}

// conventions reads the repository's own instructions for agents in some directories, as far as left
// allows. They are texts of the repository: they describe conventions, and nothing depends on them.
func (a *Activities) conventions(ctx context.Context, ws contract.Workspace, files, dirs []string, left *int) ([]prompt.Excerpt, error) {
	var out []prompt.Excerpt
	for _, dir := range dirs {
		for _, base := range conventionFiles {
			name := path.Join(dir, base)
			if _, there := slices.BinarySearch(files, name); !there || *left < minEarlier {
				continue
			}
			content, found, err := a.Workspaces.File(ctx, ws, name, maxConventionFile)
			if err != nil {
				return nil, err
			}
			text := prompt.Beginning(strings.TrimSpace(telemetry.Redact(strings.ToValidUTF8(string(content), "\uFFFD"))), min(conventionBytes, *left))
			same := func(e prompt.Excerpt) bool { return e.Text == text }
			if !found || text == "" || slices.ContainsFunc(out, same) {
				continue // a link, or a copy of the other file
			}
			*left -= len(text)
			out = append(out, prompt.Excerpt{Name: name, Text: text})
		}
	}
	return out, nil
}
