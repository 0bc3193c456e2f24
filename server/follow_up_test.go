package server_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// drawn is a picture.
func drawn(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, png.Encode(&out, image.NewGray(image.Rect(0, 0, 40, 30))))
	return out.Bytes()
}

// releasedRun creates a run over HTTP, with pictures, and gives it the branch that it would release.
func (b *fixture) releasedRun(t *testing.T, pictures ...control.PictureFile) int64 {
	t.Helper()
	return b.releasedRunOf(t, map[string]string{"a": "b"}, pictures...)
}

// releasedRunOf is releasedRun in a repository with the given files.
func (b *fixture) releasedRunOf(t *testing.T, files map[string]string, pictures ...control.PictureFile) int64 {
	t.Helper()
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), files)
	client, _ := clientOf(t, b.handler, quietly)
	made, err := client.Create(t.Context(), control.Creation{Repo: repo, Goal: "Add dark mode", Pictures: pictures})
	require.NoError(t, err)
	harness.Git(t, repo, "switch", "-q", "-c", "rgpt/run-1")
	harness.Git(t, repo, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "made")
	commit := harness.Git(t, repo, "rev-parse", "HEAD")
	harness.Git(t, repo, "switch", "-q", "-")
	b.record(t, contract.Record{RunID: made.Run.ID, Run: &contract.RunChange{
		Phase: contract.PhaseReleaser, Status: contract.StatusDone, Branch: "rgpt/run-1", Commit: commit, Finished: true,
	}})
	return made.Run.ID
}

// upload posts the form for a follow-up as a browser does, without a script.
func (b *fixture) upload(t *testing.T, id any, goal string, files ...control.PictureFile) *httptest.ResponseRecorder {
	t.Helper()
	return b.uploadAs(t, "", id, goal, files...)
}

// uploadAs is upload with the name of a person.
func (b *fixture) uploadAs(t *testing.T, by string, id any, goal string, files ...control.PictureFile) *httptest.ResponseRecorder {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	require.NoError(t, form.WriteField("goal", goal))
	require.NoError(t, form.WriteField("by", by))
	for _, f := range files {
		part, err := form.CreateFormFile("pictures", f.Name)
		require.NoError(t, err)
		_, err = part.Write(f.Data)
		require.NoError(t, err)
	}
	require.NoError(t, form.Close())
	return b.send(t, http.MethodPost, fmt.Sprintf("/runs/%v/follow-up", id), body.String(), "Content-Type", form.FormDataContentType(), "Accept", "text/html", "Sec-Fetch-Site", "same-origin")
}

func TestTheFormOfAFinishedRunFollowsItUpWithPictures(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	id := b.releasedRun(t)
	page, _ := b.page(t, fmt.Sprintf("/runs/%d", id))
	require.Contains(t, attributes(page, "action"), fmt.Sprintf("/runs/%d/follow-up", id))
	require.Contains(t, attributes(page, "enctype"), "multipart/form-data")
	require.Contains(t, attributes(page, "type"), "file")

	w := b.upload(t, id, "Now also the docs\n\nAll of them.", control.PictureFile{Name: "mock up.png", Data: drawn(t)}, control.PictureFile{Name: "second.png", Data: drawn(t)})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, fmt.Sprintf("/runs/%d", id+1), w.Header().Get("Location"))
	run, err := b.Run(t.Context(), id+1)
	require.NoError(t, err)
	require.Equal(t, "Now also the docs", run.GoalTitle)
	require.Equal(t, "All of them.", run.GoalDescription)
	require.Equal(t, id, run.Settings.FollowUp.RunID)
	require.Len(t, run.Settings.Pictures, 2)
	require.Equal(t, "image/png", run.Settings.Pictures[0].MediaType)

	page, text := b.page(t, w.Header().Get("Location"))
	require.Contains(t, text, "2 pictures of the goal")
	files, err := b.Artifacts(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, "goal/1-mock-up.png", files[0].Name)
	shown := fmt.Sprintf("/runs/%d/artifacts/%d/content", run.ID, files[0].ID)
	require.Contains(t, attributes(page, "src"), shown)
	got := b.get(t, shown)
	require.Equal(t, "image/png", got.Header().Get("Content-Type"))
}

func TestAFollowUpByFormRecordsThePersonAndNeedsANameIfAuthorsCannotApproveIt(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	id := b.releasedRun(t)
	page, text := b.page(t, fmt.Sprintf("/runs/%d", id))
	require.Contains(t, text, "Your name (recorded)")
	require.Contains(t, attributes(page, "autocomplete"), "name")
	w := b.uploadAs(t, " Ann ", id, "Now also the docs")
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	run, err := b.Run(t.Context(), id+1)
	require.NoError(t, err)
	require.Equal(t, "Ann", run.Settings.CreatedBy)
	require.Equal(t, http.StatusBadRequest, b.uploadAs(t, "a\x00", id, "More").Code)
	require.Contains(t, b.uploadAs(t, strings.Repeat("n", 201), id, "More").Body.String(), "200 characters")

	demanding := b.releasedRunOf(t, map[string]string{"a": "b", "rgpt.yaml": "gate:\n  approver: not_author\n"})
	w = b.uploadAs(t, "", demanding, "Now also the docs")
	require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "gate.approver: not_author")
	w = b.uploadAs(t, "ann", demanding, "Now also the docs")
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
}

func TestAFormWithoutFilesFollowsARunUp(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	id := b.releasedRun(t)
	// A browser sends an empty part without a name if no file was chosen.
	w := b.send(t, http.MethodPost, fmt.Sprintf("/runs/%d/follow-up", id), strings.ReplaceAll("--x\nContent-Disposition: form-data; name=\"goal\"\n\nDocs\n"+
		"--x\nContent-Disposition: form-data; name=\"pictures\"; filename=\"\"\nContent-Type: application/octet-stream\n\n\n--x--\n", "\n", "\r\n"), "Content-Type", "multipart/form-data; boundary=x")
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	run, err := b.Run(t.Context(), id+1)
	require.NoError(t, err)
	require.Empty(t, run.Settings.Pictures)
}

func TestAFollowUpByFormIsRefusedLikeOneByTheAPI(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	id := b.releasedRun(t)
	drawing := control.PictureFile{Name: "a.png", Data: drawn(t)}
	large := control.PictureFile{Name: "large.png", Data: append(drawn(t), bytes.Repeat([]byte{0xff}, 6<<20)...)}
	for name, c := range map[string]struct {
		id    any
		goal  string
		files []control.PictureFile
		code  int
		says  string
	}{
		"no goal":             {id: id, goal: " ", code: http.StatusUnprocessableEntity, says: "goal"},
		"a goal with a NUL":   {id: id, goal: "a\x00", code: http.StatusBadRequest, says: "goal"},
		"an unknown run":      {id: 999, goal: "x", code: http.StatusNotFound},
		"nonsense for a run":  {id: "x", goal: "x", code: http.StatusNotFound},
		"a file of text":      {id: id, goal: "x", files: []control.PictureFile{{Name: "a.png", Data: []byte("<svg/>")}}, code: http.StatusUnprocessableEntity, says: "neither a PNG"},
		"a file that is long": {id: id, goal: "x", files: []control.PictureFile{large}, code: http.StatusUnprocessableEntity, says: "execution.pictures.max_size"},
		"many files":          {id: id, goal: "x", files: []control.PictureFile{drawing, drawing, drawing, drawing, drawing, drawing, drawing, drawing, drawing}, code: http.StatusUnprocessableEntity, says: "execution.pictures.max"},
	} {
		w := b.upload(t, c.id, c.goal, c.files...)
		require.Equal(t, c.code, w.Code, name)
		require.Contains(t, w.Body.String(), c.says, name)
		require.Contains(t, w.Header().Get("Content-Type"), "text/html", name)
	}
	w := b.send(t, http.MethodPost, fmt.Sprintf("/runs/%d/follow-up", id), `{"goal": "x"}`)
	require.Equal(t, http.StatusBadRequest, w.Code, "no form: %s", w.Body)
	w = b.send(t, http.MethodPost, fmt.Sprintf("/runs/%d/follow-up", id), "--x\r\nnonsense\xff", "Content-Type", "multipart/form-data; boundary=x")
	require.Equal(t, http.StatusBadRequest, w.Code, "a broken form: %s", w.Body)
	w = b.send(t, http.MethodPost, fmt.Sprintf("/runs/%d/follow-up", id), "--x--\r\n", "Content-Type", "multipart/form-data; boundary=x", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, w.Code, "another site")
	w = b.send(t, http.MethodPost, "/api/runs", "\xff", "Content-Type", "multipart/form-data; boundary=x")
	require.Equal(t, http.StatusBadRequest, w.Code, "files are only accepted by the form: %s", w.Body)
	runs, err := b.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
}
