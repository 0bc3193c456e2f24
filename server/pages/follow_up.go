package pages

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// followUp creates a run that continues the branch of a finished one, from the form on its page, and
// leads to the page of the new run.
func (s *Server) followUp(w http.ResponseWriter, r *http.Request) error {
	id, err := param.ID(r)
	if err != nil {
		return err
	}
	// The body is in memory already, so none of it needs a file.
	if err := r.ParseMultipartForm(max(0, r.ContentLength)); err != nil {
		return apitypes.BadRequest("the form cannot be read: " + err.Error())
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	goal := r.PostFormValue("goal")
	if err := param.CheckText("goal", goal); err != nil {
		return err
	}
	entered := r.PostFormValue(control.FieldBy)
	if err := param.CheckText(control.FieldBy, entered); err != nil {
		return err
	}
	by, err := senderOf(entered)
	if err != nil {
		return err
	}
	pictures, err := uploaded(r.MultipartForm.File["pictures"])
	if err != nil {
		return err
	}
	made, err := s.Runs.FollowUp(r.Context(), control.FollowUp{RunID: id, Goal: goal, Pictures: pictures, By: by, NeedsName: true})
	if err != nil {
		return err
	}
	http.Redirect(w, r, ui.RunHref(made.Run.ID, ""), http.StatusSeeOther)
	return nil
}

// uploaded reads the pictures of a form. Their number and sizes are checked with their contents.
func uploaded(files []*multipart.FileHeader) ([]control.PictureFile, error) {
	var out []control.PictureFile
	for _, f := range files {
		if err := param.CheckText("pictures", f.Filename); err != nil {
			return nil, err
		}
		data, err := contentOf(f)
		if err != nil {
			return nil, apitypes.BadRequest(fmt.Sprintf("the picture %q cannot be read: %v", f.Filename, err))
		}
		out = append(out, control.PictureFile{Name: f.Filename, Data: data})
	}
	return out, nil
}

func contentOf(f *multipart.FileHeader) ([]byte, error) {
	file, err := f.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(file)
	return data, errors.Join(err, file.Close())
}

// goalPictures returns those of a run's files that are pictures of its goal, in their order.
func goalPictures(run store.Run, files []contract.Artifact) []contract.Artifact {
	var out []contract.Artifact
	for i, p := range run.Settings.Pictures {
		if at := slices.IndexFunc(files, func(f contract.Artifact) bool { return f.Name == p.ArtifactName(i) }); at >= 0 {
			out = append(out, files[at])
		}
	}
	return out
}
