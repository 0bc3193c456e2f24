// Package migrations holds the database schema: goose migrations, embedded.
package migrations

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
)

// FS holds the migrations, one file each: NNNNN_name.sql.
//
//go:embed *.sql
var FS embed.FS

// Latest returns the version of the newest migration: the schema that this
// binary works with.
func Latest() int64 {
	names, _ := fs.Glob(FS, "*.sql") // the pattern is well formed
	var latest int64
	for _, name := range names {
		digits, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(digits, 10, 64)
		if err == nil {
			latest = max(latest, version)
		}
	}
	return latest
}
