package activities

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/picture"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// goneNote takes the place of a picture whose content is not stored any more.
const goneNote = "[picture omitted: its file has been deleted]"

// goalPictures adds the pictures of a run's goal to the opening of an agent's conversation. Only
// references are stored; see withPictures.
func goalPictures(p *prompt.Prompt, run store.Run) {
	for _, one := range run.Settings.Pictures {
		p.Pictures = append(p.Pictures, model.Image{MediaType: one.MediaType, Digest: one.Digest})
	}
}

// namesOf returns the names of a goal's pictures, for the text of a task.
func namesOf(pictures []contract.Picture) []string {
	var out []string
	for _, p := range pictures {
		out = append(out, prompt.ShownPath(p.Name))
	}
	return out
}

// withPictures returns the messages of a conversation with the content of their pictures, which is in
// the artifact store. The given messages stay as they are.
func (a *Activities) withPictures(ctx context.Context, messages []model.Message) ([]model.Message, error) {
	out := messages
	for i, m := range messages {
		if len(m.Images) == 0 {
			continue
		}
		if &out[0] == &messages[0] {
			out = slices.Clone(messages)
		}
		images := make([]model.Image, 0, len(m.Images))
		for _, p := range m.Images {
			content, err := a.Artifacts.Get(ctx, p.Digest)
			if errors.Is(err, artifact.ErrNotFound) {
				out[i].Text += "\n" + goneNote
				continue
			}
			if err != nil {
				return nil, err
			}
			p.Data = content
			images = append(images, p)
		}
		out[i].Images = images
	}
	return out, nil
}

// screenshots returns at most a number of screenshots of the failed tests that a heal is to fix, and
// adds the names of their files to its prompt. Screenshots come from the code under test: those that
// are not acceptable pictures, or too large, are left out.
func (a *Activities) screenshots(ctx context.Context, p *prompt.RepairTask, task contract.HealTask, executions []store.Execution, most int) ([]model.Image, error) {
	e, ok := executionWith(executions, task.Execution.ID)
	if !ok || task.Check != 0 || most <= 0 || e.Phase != contract.PhaseTester {
		return nil, nil
	}
	checks, err := a.Store.Checks(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	files, err := a.Store.Artifacts(ctx, e.RunID)
	if err != nil {
		return nil, err
	}
	var out []model.Image
	for _, f := range files {
		if len(out) == most {
			break
		}
		if f.ExecutionID != e.ID || f.Type != contract.ArtifactScreenshot || f.Missing() != "" || f.Size > a.Config.Execution.Pictures.MaxSize.Int64() || !ofFailed(checks, f.Name) {
			continue
		}
		image, err := a.screenshot(ctx, f)
		if err != nil {
			return nil, err
		}
		if image != nil {
			out = append(out, *image)
			p.Pictures = append(p.Pictures, prompt.ShownPath(f.Name))
		}
	}
	return out, nil
}

// screenshot checks a screenshot, nil if it is not an acceptable picture.
func (a *Activities) screenshot(ctx context.Context, f contract.Artifact) (*model.Image, error) {
	content, err := a.Artifacts.Section(ctx, f.Digest, f.Size)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil //nolint:nilnil // the repair can do without
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	most := a.Config.Execution.Pictures.MaxSize.Int64()
	data, err := io.ReadAll(io.LimitReader(content, most+1))
	if err != nil {
		return nil, err
	}
	kind, _, err := picture.Check(data, most)
	if err != nil {
		return nil, nil //nolint:nilnil // not worth a failed repair
	}
	// The file as it is, so that its content stays as long as the files of the run.
	return &model.Image{MediaType: kind, Digest: f.Digest}, nil
}

// ofFailed reports whether a file belongs to a check that failed, and not to one of its tests that
// passed.
func ofFailed(checks []store.Check, name string) bool {
	for _, c := range checks {
		if c.Result.OK || !slices.Contains(strings.Split(path.Dir(name), "/"), c.Result.Check.ID) {
			continue
		}
		return true
	}
	return false
}
