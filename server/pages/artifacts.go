package pages

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the pages for files.
const (
	shownArtifactRows = 100
	treeBytes         = 1 << 20  // of a JSON document that is shown as a tree
	patchBytes        = 1 << 20  // of a patch that is rendered
	zipBytes          = 16 << 20 // of an archive's directory
	shownZip          = 2000     // files of an archive
	sniffed           = 8 << 10  // of a file, to detect its type
)

// artifactsTab lists the files of a run.
func (s *Server) artifactsTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q := r.URL.Query()
	l := ui.ArtifactList{Head: *h, Type: q.Get("type"), Phase: q.Get("phase"), Text: q.Get("q")}
	if err := param.CheckText("type", l.Type, "q", l.Text); err != nil {
		return nil, err
	}
	if err := param.OneOf("phase", contract.Phase(l.Phase), contract.Phases()); err != nil {
		return nil, err
	}
	after := int64(0)
	if v := q.Get("after"); v != "" {
		var err error
		if after, err = strconv.ParseInt(v, 10, 64); err != nil {
			return nil, apitypes.BadRequest("after: must be a file number")
		}
	}
	var err error
	l.Files, err = s.Views.ArtifactsOf(ctx, h.Run.ID, views.ArtifactFilter{
		Type: contract.ArtifactType(l.Type), Phase: contract.Phase(l.Phase), Text: l.Text, After: after, Limit: shownArtifactRows + 1,
	})
	if len(l.Files) > shownArtifactRows {
		l.Files = l.Files[:shownArtifactRows]
		l.Next = ui.RunHref(h.Run.ID, "artifacts") + "?" + with(q, "after", fmt.Sprint(l.Files[shownArtifactRows-1].ID)).Encode()
	}
	return ui.ArtifactsTab(l), err
}

// artifactTab shows a file according to its content, regardless of its name and type.
func (s *Server) artifactTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	id, err := param.Number(r, "artifact")
	if err != nil {
		return nil, err
	}
	p := ui.ArtifactPage{Head: *h}
	if p.File, p.Before, p.After, err = s.Views.Artifact(ctx, h.Run.ID, id); err != nil {
		return nil, err
	}
	if why := p.File.Missing(); why != "" {
		p.Words = "The content of this file was " + why + "."
		return ui.ArtifactTab(p), nil
	}
	file, err := s.Artifacts.Section(ctx, p.File.Digest, p.File.Size)
	if errors.Is(err, artifact.ErrNotFound) {
		p.Words = "The content of this file is no longer stored."
		return ui.ArtifactTab(p), nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if err := s.look(r, &p, file); err != nil {
		return nil, err
	}
	return ui.ArtifactTab(p), nil
}

// look fills in the parts of a file that can be shown.
func (s *Server) look(r *http.Request, p *ui.ArtifactPage, file *artifact.Section) error {
	head, err := beginningOf(file, sniffed)
	if err != nil {
		return err
	}
	p.Media = mediaOf(head)
	switch {
	case p.Media != "":
		return nil
	case strings.HasPrefix(string(head), "PK\x03\x04"), strings.HasPrefix(string(head), "PK\x05\x06"):
		p.Zip, p.Words = zipEntries(file, p.File.Size)
		return nil
	case p.File.Size == 0:
		p.Words = "This file is empty."
		return nil
	case !ui.IsText(head):
		p.Words = "This file cannot be shown here. Download it."
		return nil
	}
	return lookAtText(r, p, file)
}

func lookAtText(r *http.Request, p *ui.ArtifactPage, file *artifact.Section) error {
	plain := r.URL.Query().Has("from") || r.URL.Query().Has("q")
	switch {
	case plain:
	case p.File.Type == contract.ArtifactPatch && p.File.Size <= patchBytes:
		text, err := beginningOf(file, patchBytes)
		p.Patch = strings.ToValidUTF8(string(text), "\ufffd")
		return err
	case (p.File.Type == contract.ArtifactJSON || strings.HasSuffix(p.File.Name, ".json")) && p.File.Size <= treeBytes:
		raw, err := beginningOf(file, treeBytes)
		if err != nil {
			return err
		}
		if tree, ok := ui.TreeOf(raw); ok {
			p.Tree = &tree
			return nil
		}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	text, err := textWindow(r, file)
	text.Href = ui.ArtifactHref(p.File.Artifact)
	p.Text = &text
	return err
}

func beginningOf(file *artifact.Section, most int64) ([]byte, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// mediaOf detects, from its first bytes, the type of an image or a video that may be shown in a
// page. Types that can contain scripts, such as SVG, are excluded.
func mediaOf(head []byte) string {
	kind := http.DetectContentType(head)
	if slices.Contains([]string{"image/png", "image/jpeg", "image/webp", "image/gif", "video/webm", "video/mp4"}, kind) {
		return kind
	}
	return ""
}

// bounded limits the total number of bytes read.
type bounded struct {
	io.ReaderAt
	left int64
}

var errLargeZip = errors.New("the archive's directory is too large")

func (b *bounded) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errLargeZip
	}
	return b.ReaderAt.ReadAt(p, at)
}

// zipEntries lists the files of an archive, and explains why if it does not list all.
func zipEntries(file io.ReaderAt, size int64) ([]ui.ZipEntry, string) {
	archive, err := zip.NewReader(&bounded{file, zipBytes}, size)
	switch {
	case errors.Is(err, errLargeZip):
		return nil, "This archive has too many files to list here. Download it."
	case err != nil && !errors.Is(err, zip.ErrInsecurePath):
		return nil, "This archive cannot be read here. Download it."
	}
	out := []ui.ZipEntry{}
	for _, f := range firstOf(archive.File, shownZip) {
		out = append(out, ui.ZipEntry{Name: strings.ToValidUTF8(f.Name, "\ufffd"), Size: f.UncompressedSize64})
	}
	if more := len(archive.File) - len(out); more > 0 {
		return out, fmt.Sprintf("The archive has %d more files, which are not listed here.", more)
	}
	return out, ""
}

// artifactContent sends an image or a video with the type of its content, and supports range
// requests. All other files are downloads, which browsers do not show. Opened directly, the content
// may not run or load anything.
func (s *Server) artifactContent(w http.ResponseWriter, r *http.Request) error {
	run, err := param.ID(r)
	if err != nil {
		return err
	}
	id, err := param.Number(r, "artifact")
	if err != nil {
		return err
	}
	a, _, _, err := s.Views.Artifact(r.Context(), run, id)
	if err != nil {
		return err
	}
	if a.Missing() != "" {
		return store.ErrNotFound
	}
	file, err := s.Artifacts.Section(r.Context(), a.Digest, a.Size)
	if errors.Is(err, artifact.ErrNotFound) {
		return store.ErrNotFound
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	head, err := beginningOf(file, sniffed)
	if err != nil {
		return err
	}
	media := mediaOf(head)
	if media == "" {
		return apitypes.BadRequest("this file is neither an image nor a video; download it: /api/runs/" + url.PathEscape(r.PathValue("id")) + "/artifacts/" + url.PathEscape(r.PathValue("artifact")))
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	w.Header().Set("Cache-Control", "private, max-age=86400")
	w.Header().Set("ETag", `"`+a.Digest+`"`)
	http.ServeContent(w, r, "", a.CreatedAt, file)
	return nil
}
