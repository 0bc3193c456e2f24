package contract

import "fmt"

// Picture is a picture that belongs to the goal of a run. Its content is in the artifact store; only
// this reference is part of histories and transcripts.
type Picture struct {
	Name      string `json:"name"`       // of the file, for people and models
	MediaType string `json:"media_type"` // image/png, image/jpeg, image/gif or image/webp
	Size      int64  `json:"size"`       // bytes
	Digest    string `json:"digest"`     // of the content
}

// ArtifactName returns the name under which a run lists its picture with an index.
func (p Picture) ArtifactName(i int) string { return fmt.Sprintf("goal/%d-%s", i+1, p.Name) }
