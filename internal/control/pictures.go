package control

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/picture"
)

// PictureFile is a picture for the goal of a new run.
type PictureFile struct {
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"name of the file, such as mock.png"`
	Data []byte `json:"data" doc:"content of a PNG, JPEG, GIF or WebP file, in base64"`
}

// maxPictureName is the length of the longest name that is kept of a picture.
const maxPictureName = 80

// storePictures checks the pictures of a goal and stores them. All are checked before the first one is
// stored.
func (r *Runs) storePictures(ctx context.Context, all []PictureFile) ([]contract.Picture, error) {
	limits := r.Config.Execution.Pictures
	if len(all) > limits.Max {
		return nil, wrong("%d pictures were given; at most %d are allowed (execution.pictures.max)", len(all), limits.Max)
	}
	out := make([]contract.Picture, len(all))
	contents := make([][]byte, len(all))
	for i, p := range all {
		kind, content, err := picture.Check(p.Data, limits.MaxSize.Int64())
		if err != nil {
			return nil, wrong("the picture %q cannot be used: %v", p.Name, err)
		}
		out[i] = contract.Picture{Name: pictureName(p.Name, i), MediaType: kind, Size: int64(len(content))}
		contents[i] = content
	}
	for i, content := range contents {
		var err error
		if out[i].Digest, err = r.Artifacts.Put(ctx, content); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pictureName returns the name of a file without directories and unusual characters.
func pictureName(name string, i int) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, filepath.Base(filepath.ToSlash(strings.ToValidUTF8(name, ""))))
	if name = strings.Trim(name, ".-"); name == "" {
		name = fmt.Sprintf("picture-%d", i+1)
	}
	if len(name) > maxPictureName {
		name = strings.ToValidUTF8(name[len(name)-maxPictureName:], "")
	}
	return name
}
