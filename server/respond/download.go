package respond

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Download sends an artifact as an attachment.
func (res *Responder) Download(w http.ResponseWriter, r *http.Request, files *artifact.Store, a contract.Artifact) error {
	if why := a.Missing(); why != "" {
		return fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "cannot read %s of run %d: it was %s", a.Name, a.RunID, why)
	}
	content, err := files.Reader(r.Context(), a.Digest)
	if err != nil {
		return err
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", Attachment(ui.DownloadName(a)))
	w.Header().Set("Content-Length", strconv.FormatInt(a.Size, 10))
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(middleware.LiftTimeout(w, r, res.Log), content); err != nil {
		res.Log.Info("Only part of a download was sent", "run", a.RunID, "artifact", a.Name, "error", err)
	}
	return nil
}

// Attachment returns the Content-Disposition that offers a file under the last element of its name,
// for names from any operating system.
func Attachment(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(name, "./") == "" {
		name = "artifact"
	}
	if value := mime.FormatMediaType("attachment", map[string]string{"filename": name}); value != "" {
		return value
	}
	return "attachment"
}
