package server

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// download sends an artifact as a file to keep.
func (s *server) download(w http.ResponseWriter, r *http.Request, a contract.Artifact) {
	content, err := s.Artifacts.Reader(r.Context(), a.Digest)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", disposition(a.Name))
	w.Header().Set("Content-Length", strconv.FormatInt(a.Size, 10))
	if r.Method == http.MethodHead {
		return
	}
	if _, err := io.Copy(s.endless(w, r), content); err != nil {
		s.Log.Info("A download ended early", "run", a.RunID, "artifact", a.Name, "error", err)
	}
}

// disposition offers a file under the last part of its name, whatever system
// that name was made on.
func disposition(name string) string {
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
