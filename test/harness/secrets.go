package harness

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// CheckSecrets checks that neither the key of a model provider nor the password of the database
// occurs anywhere: logs, rows, histories, artifacts, output of commands. The files with which the
// owner of the data folder connects to the stack contain the password on purpose.
func (s *Stack) CheckSecrets(tb testing.TB, runs ...int64) {
	tb.Helper()
	var all []History
	for _, run := range runs {
		all = append(all, s.Histories(tb, run)...)
	}
	s.checkSecrets(tb, all)
}

func (s *Stack) checkSecrets(tb testing.TB, histories []History) {
	tb.Helper()
	u, err := url.Parse(s.state(tb).Database)
	require.NoError(tb, err)
	password, _ := u.User.Password()
	require.NotEmpty(tb, password)
	hunt := secretHunt{TB: tb, secrets: append([]string{s.Secret, password}, s.hidden...)}
	for _, folder := range []string{"logs", "artifacts", "scripted-requests.jsonl"} {
		hunt.files(filepath.Join(s.DataDir, folder))
	}
	s.mu.Lock()
	hunt.look("output of commands", s.output.Bytes())
	s.mu.Unlock()
	for _, h := range histories {
		hunt.look("history of "+h.WorkflowID, h.JSON(tb))
		hunt.payloads(h)
	}
	hunt.database(s.state(tb).Database)
}

// secretHunt looks for secrets.
type secretHunt struct {
	testing.TB
	secrets []string
}

func (h secretHunt) look(where string, text []byte) {
	h.Helper()
	for i, secret := range h.secrets {
		if at := bytes.Index(text, []byte(secret)); at >= 0 {
			h.Errorf("secret %d occurs in %s: …%q…", i+1, where, bytes.ReplaceAll(text[max(0, at-80):min(len(text), at+len(secret)+40)], []byte(secret), []byte("SECRET")))
		}
	}
}

// payloads searches the payloads, which are base64-encoded in JSON.
func (h secretHunt) payloads(history History) {
	h.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case string:
			if raw, err := base64.StdEncoding.DecodeString(v); err == nil {
				h.look("a payload of "+history.WorkflowID, raw)
			}
		}
	}
	var doc any
	require.NoError(h, json.Unmarshal(history.JSON(h), &doc))
	walk(doc)
}

func (h secretHunt) files(root string) {
	h.Helper()
	require.NoError(h, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.look(path, text)
		h.zip(path, text)
		return nil
	}))
}

// zip searches the files of an archive.
func (h secretHunt) zip(path string, text []byte) {
	h.Helper()
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return
	}
	for _, f := range archive.File {
		r, err := f.Open()
		require.NoError(h, err)
		content, err := io.ReadAll(r)
		require.NoError(h, err)
		h.look(path+":"+f.Name, content)
	}
}

// database searches every row of every table.
func (h secretHunt) database(address string) {
	h.Helper()
	ctx := h.Context()
	conn, err := pgx.Connect(ctx, address)
	require.NoError(h, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	require.NoError(h, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h, err)
	require.Greater(h, len(tables), 10)
	var all []string
	for _, t := range tables {
		for _, secret := range h.secrets {
			all = append(all, fmt.Sprintf(`SELECT '%s', left(t::text, 500) FROM %s t WHERE strpos(t::text, '%s') > 0`, t, pgx.Identifier{t}.Sanitize(), secret))
		}
	}
	rows, err = conn.Query(ctx, strings.Join(all, " UNION ALL "))
	require.NoError(h, err)
	var table, row string
	_, err = pgx.ForEachRow(rows, []any{&table, &row}, func() error {
		h.Errorf("a secret occurs in a row of %s: %s", table, row)
		return nil
	})
	require.NoError(h, err)
}
