package tool

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// PlannedCall is a call that an agent makes because its plan says so.
type PlannedCall struct {
	Name      string
	Arguments json.RawMessage
}

// PlannedCalls returns the calls with which a builder makes the edits of a plan: one for each file,
// and another one before it if the plan creates that file. The last call finishes with a summary.
func PlannedCalls(edits []contract.Edit, summary string) ([]PlannedCall, error) {
	var out []PlannedCall
	var failed error
	add := func(name string, params any) {
		raw, err := json.Marshal(params)
		if err != nil && failed == nil {
			failed = fmt.Errorf("encode a call to %s: %w", name, err)
		}
		out = append(out, PlannedCall{name, raw})
	}
	for _, f := range plannedFiles(edits) {
		if f.creates {
			add(CreateFile, createFileParams{Path: f.path, Content: f.content})
		}
		if len(f.edits) > 0 {
			add(EditFile, editFileParams{Path: f.path, Edits: f.edits})
		}
	}
	add(Finish, finishParams{Summary: summary})
	return out, failed
}

// plannedFile contains the edits of one file, in order.
type plannedFile struct {
	path    string
	creates bool   // the file is created first
	content string // with this content
	edits   []textEdit
}

// plannedFiles groups edits by their files. An edit without an old text creates its file, if it is
// the first one there; otherwise it is an edit that cannot be made.
func plannedFiles(edits []contract.Edit) []*plannedFile {
	var out []*plannedFile
	byPath := map[string]*plannedFile{}
	for _, e := range edits {
		name := path.Clean(e.Path)
		f, known := byPath[name]
		if !known {
			f = &plannedFile{path: name}
			byPath[name], out = f, append(out, f)
		}
		if e.OldText == "" && !known {
			f.creates, f.content = true, e.NewText
			continue
		}
		f.edits = append(f.edits, textEdit{OldText: e.OldText, NewText: e.NewText, ReplaceAll: e.ReplaceAll})
	}
	return out
}

// checkEdits returns why the edits of a plan cannot be made, or "" if they can. It changes nothing.
func (f *files) checkEdits(edits []contract.Edit) (string, error) {
	for _, file := range plannedFiles(edits) {
		wrong, err := answer(Result{}, f.checkPlanned(file))
		if err != nil || wrong.Text != "" {
			return wrong.Text, err
		}
	}
	return "", nil
}

// checkPlanned returns a refusal if the edits of a file cannot be made.
func (f *files) checkPlanned(p *plannedFile) error {
	name, err := cleanPath(p.path)
	if err != nil {
		return err
	}
	for _, e := range p.edits {
		if e.OldText == "" {
			return refuse(contract.CodeInvalidOutput, "An edit without old_text creates a file, but %s has other edits before it.", name)
		}
	}
	if !p.creates {
		_, err := f.edited(editFileParams{Path: p.path, Edits: p.edits})
		return err
	}
	switch _, err := f.root.Lstat(name); {
	case err == nil:
		return refuse("", "%s already exists; to change it, give the old_text to replace.", name)
	case len(p.content) > f.limits.WriteBytes:
		return tooLarge(name, int64(len(p.content)), int64(f.limits.WriteBytes))
	}
	after, places := p.content, regions{}
	for i, e := range p.edits {
		if after, places, err = e.apply(name, fmt.Sprintf("Edit %d of the new file: ", i+1), after, places); err != nil {
			return err
		}
	}
	return nil
}

// maxEditProblem is the size of the reason why an edit cannot be made.
const maxEditProblem = 4 << 10

// editProblem returns why the edits of a plan cannot be made in the workspace, or "".
func editProblem(env Env, edits []contract.Edit) (string, error) {
	f, err := openFiles(env)
	if err != nil {
		return "", err
	}
	defer f.close()
	wrong, err := f.checkEdits(edits)
	return fault.Clip(wrong, maxEditProblem), err
}
