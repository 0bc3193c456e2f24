// Package migrations contains the database schema as embedded goose migrations.
package migrations

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
)

// FS contains the migrations, one file each: NNNNN_name.sql.
//
//go:embed *.sql
var FS embed.FS

// Latest returns the version of the newest migration, which is the schema version of this binary.
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
