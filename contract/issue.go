package contract

import "fmt"

// Issue is an issue on a forge that a run is about, as it was when the run was created. Its title and
// author are texts of strangers.
type Issue struct {
	Forge  string `json:"forge" doc:"name of the forge (forges)"`
	Repo   string `json:"repository" doc:"path on the forge, such as owner/name"`
	Number int64  `json:"number"`
	URL    string `json:"url"`
	Title  string `json:"title"`
	Author string `json:"author,omitempty"`
}

// String names the issue, such as team/app#12.
func (i Issue) String() string { return fmt.Sprintf("%s#%d", i.Repo, i.Number) }
