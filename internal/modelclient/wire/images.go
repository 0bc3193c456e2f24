package wire

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// mediaTypes are those that all providers accept.
var mediaTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// shown returns what a message shows to the model: its text, and the pictures that the model can
// see. For the others, the text has a note.
func (c *Call) shown(m model.Message) (text string, pictures []model.Image) {
	text = m.Text
	for _, p := range m.Images {
		switch {
		case !slices.Contains(mediaTypes, p.MediaType) || len(p.Data) == 0:
			text = joined(text, "[a picture is left out: it is neither PNG, JPEG, GIF nor WebP]")
		case !c.Entry.Can(model.CapabilityVision):
			text = joined(text, fmt.Sprintf("[a picture is left out, because you cannot see pictures: %s, %d bytes]", strings.ToUpper(strings.TrimPrefix(p.MediaType, "image/")), len(p.Data)))
		default:
			pictures = append(pictures, p)
		}
	}
	return text, pictures
}

// dataURL returns a picture as a URL that contains it.
func dataURL(p model.Image) string {
	return "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}
