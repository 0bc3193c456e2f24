// Package ui renders the dashboard: its pages as templ components, its styles, scripts, fonts and
// icons. Everything is embedded; nothing is loaded from elsewhere. Pages are rendered on the
// server; the script updates them live and sends commands.
//
// After changing a .templ file, run make generate. After changing package.json, run make ui.
package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"

	"github.com/a-h/templ"
)

//go:embed static icons
var files embed.FS

// assets are the files that a browser loads, below a path that contains their digest: they may be
// cached forever, as a new build has new names.
var (
	assets    = sub("static")
	assetsDir = "/static/" + digest(assets) + "/"
)

func sub(dir string) fs.FS {
	out, err := fs.Sub(files, dir)
	if err != nil {
		return files // cannot happen: the directory is embedded
	}
	return out
}

func digest(from fs.FS) string {
	sum := sha256.New()
	_ = fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, path)
		sum.Write([]byte(path))
		sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// Asset returns the address of a file in the directory static.
func Asset(name string) string { return assetsDir + name }

// Static serves the files below /static/ and passes everything else to another handler. Requests
// with the digest of another build are also served, but not cached.
func Static(none http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		build, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/static/"), "/")
		if info, err := fs.Stat(assets, name); err != nil || info.IsDir() {
			none(w, r)
			return
		}
		if "/static/"+build+"/" == assetsDir {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeFileFS(w, r, assets, name)
	}
}

// icons maps the names of Lucide's icons to their shapes.
var icons = func() map[string]string {
	out := map[string]string{}
	dir := sub("icons")
	entries, _ := fs.ReadDir(dir, ".")
	for _, e := range entries {
		if shapes, err := fs.ReadFile(dir, e.Name()); err == nil {
			out[strings.TrimSuffix(e.Name(), ".svg")] = string(shapes)
		}
	}
	return out
}()

// shapes returns the content of an icon. It is embedded, so it is trusted.
func shapes(name string) templ.Component { return templ.Raw(icons[name]) }

// PushWorkerPath is the address of the service worker that shows notifications in browsers. Its directory
// is the part of the server that it works for.
const PushWorkerPath = "/push-worker.js"

// PushWorker serves the service worker. Browsers ask for it again to see whether it changed.
func PushWorker(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, assets, "push-worker.js")
}
