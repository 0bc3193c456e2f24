package api

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/respond"
)

// getArtifact sends a file of a run. The file is untrusted, as it came from a repository or a
// model, so it is always sent as a download.
func (s *Server) getArtifact(w http.ResponseWriter, r *http.Request) error {
	run, err := param.ID(r)
	if err != nil {
		return err
	}
	id, err := param.Number(r, "artifact")
	if err != nil {
		return err
	}
	all, err := s.Store.Artifacts(r.Context(), run)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a contract.Artifact) bool { return a.ID == id })
	if i < 0 {
		return store.ErrNotFound
	}
	return s.Download(w, r, s.Artifacts, all[i])
}

// getZip sends all files of a run as an archive that is built on the fly.
func (s *Server) getZip(w http.ResponseWriter, r *http.Request) error {
	id, err := param.ID(r)
	if err != nil {
		return err
	}
	if _, err := s.Store.Run(r.Context(), id); err != nil {
		return err
	}
	all, err := s.Store.Artifacts(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", respond.Attachment(fmt.Sprintf("run-%d.zip", id)))
	if r.Method == http.MethodHead {
		return nil
	}
	out := zip.NewWriter(middleware.LiftTimeout(w, r, s.Log))
	var missing strings.Builder
	for _, a := range all {
		if why := a.Missing(); why != "" {
			fmt.Fprintf(&missing, "%s (%d bytes): %s\n", archived(a.Name), a.Size, why)
			continue
		}
		if err := s.pack(r, out, a); err != nil {
			// Clients recognize an archive without its end as broken.
			s.Log.ErrorContext(r.Context(), "An archive was only partly sent", "request", middleware.RequestID(r.Context()), "run", id, "artifact", a.Name, "error", err)
			return nil
		}
	}
	if missing.Len() > 0 {
		if to, err := out.Create("missing-files.txt"); err == nil {
			_, _ = io.WriteString(to, missing.String()) // Close reports it
		}
	}
	if err := out.Close(); err != nil {
		s.Log.InfoContext(r.Context(), "A client disconnected", "error", err)
	}
	return nil
}

// pack adds a file to an archive under a name that cannot escape the directory where the archive is
// unpacked.
func (s *Server) pack(r *http.Request, out *zip.Writer, a contract.Artifact) error {
	content, err := s.Artifacts.Reader(r.Context(), a.Digest)
	if err != nil {
		return err
	}
	defer content.Close()
	to, err := out.CreateHeader(&zip.FileHeader{Name: archived(a.Name), Method: zip.Deflate, Modified: a.CreatedAt})
	if err != nil {
		return err
	}
	_, err = io.Copy(to, content)
	return err
}

func archived(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == ':' {
			return '_'
		}
		return r
	}, strings.ReplaceAll(name, `\`, "/"))
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
