// Package history knows what the past commits of a repository say about a question: which files
// commits with similar messages changed, which files change together, and which change often.
//
// A history has the newest commits up to a tip, merges excepted. It is kept in a file, and brought up
// to a new tip by reading only the commits in between.
package history

import (
	"math"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// Limits of a history. What exceeds them is left out.
const (
	// DefaultCommits is the number of commits of a history, the newest ones.
	DefaultCommits = 10_000
	// MaxFiles is the number of files above which a commit does not say much about each of them, such as
	// one that formats everything.
	MaxFiles = 50
	// MaxMessage is the number of bytes of a message that count.
	MaxMessage = 4 << 10
	// maxCommitTerms is the number of different terms of a message that count.
	maxCommitTerms = 64
)

// Change is a file that a commit changed.
type Change struct {
	Path string
	// Old is its path before the commit, if the commit renamed it.
	Old string `json:",omitempty"`
}

// Commit is a commit that is not a merge.
type Commit struct {
	ID      string
	Time    time.Time // of the committer
	Message string
	// Changes are the changed files; none if there are more than MaxFiles.
	Changes []Change
}

// record is a commit as a history keeps it.
type record struct {
	id    string
	day   float64 // since 1970
	files []uint32
	terms int // different ones
}

// History is the past up to a tip. It is safe for concurrent use and never changes.
type History struct {
	commits []record            // newest first
	words   map[string][]uint32 // commits by ascending number
	touched [][]uint32          // commits by file
	files   map[string]uint32   // by each of its paths
	paths   [][]string          // by file: its paths, the newest first
	weights Weights
	now     float64 // the newest commit's day

	// view limits the history to some of its commits; nil: all.
	view []bool
	size int // number of commits in view
}

var _ rank.Past = (*History)(nil)

// Weights are the constants of a history's votes; test/retrieval tunes them.
type Weights struct {
	// Similar is the number of commits with similar messages that vote.
	Similar int
	// HalfLife is the age in days at which a commit counts half.
	HalfLife float64
	// Spread is the exponent by which a commit's vote is divided among its files: 0 gives each file
	// the whole vote, 1 gives each its share.
	Spread float64
	// Length is how much long messages are held back, from 0 to 1.
	Length float64
	// Doubt is the number of commits that a seed is assumed to have without the other file.
	Doubt float64
	// Saturation is how fast repeated words in the messages of a file's commits stop counting.
	Saturation float64
	// Busy is how much files that change often are held back, from 0 to 1.
	Busy float64
}

// Tuned are the weights in use.
func Tuned() Weights {
	return Weights{Similar: 100, HalfLife: 440, Spread: 0.35, Length: 0.25, Doubt: 3, Saturation: 0.5, Busy: 0.3}
}

// New makes a history of commits, the newest first. It keeps at most limit of them.
func New(commits []Commit, limit int, w Weights) *History {
	commits = commits[:min(limit, len(commits))]
	h := &History{
		words: map[string][]uint32{}, files: map[string]uint32{}, weights: w,
		commits: make([]record, len(commits)), size: len(commits),
	}
	for i, c := range commits {
		h.commits[i] = record{id: c.ID, day: float64(c.Time.Unix()) / (24 * 60 * 60)}
		h.addFiles(uint32(i), c.Changes)
		h.addTerms(uint32(i), c.Message)
		h.now = max(h.now, h.commits[i].day)
	}
	return h
}

// addFiles notes the files of a commit. A renamed file remains the same file, whatever its path.
func (h *History) addFiles(commit uint32, changes []Change) {
	if len(changes) > MaxFiles {
		return
	}
	for _, change := range changes {
		file := h.file(change.Path)
		if change.Old != "" {
			if _, known := h.files[change.Old]; !known {
				h.files[change.Old] = file
				h.paths[file] = append(h.paths[file], change.Old)
			}
		}
		h.touched[file] = append(h.touched[file], commit)
		h.commits[commit].files = append(h.commits[commit].files, file)
	}
}

// file returns the number of the file with a path.
func (h *History) file(path string) uint32 {
	file, ok := h.files[path]
	if !ok {
		file = uint32(len(h.paths))
		h.files[path] = file
		h.paths = append(h.paths, []string{path})
		h.touched = append(h.touched, nil)
	}
	return file
}

// addTerms notes the terms of a commit's message.
func (h *History) addTerms(commit uint32, message string) {
	n := 0
	terms.Split([]byte(message[:min(MaxMessage, len(message))]), func(term []byte) {
		list, ok := h.words[string(term)]
		if n == maxCommitTerms || ok && list[len(list)-1] == commit {
			return
		}
		n++
		h.words[string(term)] = append(list, commit)
	})
	h.commits[commit].terms = n
}

// View returns the history limited to the commits that keep accepts.
func (h *History) View(keep func(id string) bool) *History {
	v := *h
	v.view, v.size, v.now = make([]bool, len(h.commits)), 0, 0
	for i, c := range h.commits {
		if keep(c.id) {
			v.view[i] = true
			v.size++
			v.now = max(v.now, c.day)
		}
	}
	return &v
}

// Commits returns the number of commits.
func (h *History) Commits() int { return h.size }

func (h *History) sees(commit uint32) bool { return h.view == nil || h.view[commit] }

// age is the weight of a commit by its age.
func (h *History) age(commit uint32) float64 {
	return 1 / (1 + max(h.now-h.commits[commit].day, 0)/h.weights.HalfLife)
}

// scored is a commit or file with a score.
type scored struct {
	number uint32
	score  float64
	from   uint32
}

// order puts the best first; numbers break ties.
func order(list []scored) {
	slices.SortFunc(list, func(a, b scored) int {
		switch {
		case a.score != b.score:
			if a.score > b.score {
				return -1
			}
			return 1
		default:
			return int(a.number) - int(b.number)
		}
	})
}

// Similar returns the files that commits with similar messages changed, best first.
func (h *History) Similar(q terms.QueryTerms) []rank.Vote {
	scores := make([]float64, len(h.commits))
	for _, t := range q.Terms {
		commits := h.words[t.Text]
		df := 0
		for _, c := range commits {
			if h.sees(c) {
				df++
			}
		}
		if df == 0 {
			continue
		}
		idf := math.Log(1 + (float64(h.size)-float64(df)+0.5)/(float64(df)+0.5))
		weight := idf
		if t.Head {
			weight *= 2
		}
		for _, c := range commits {
			if h.sees(c) {
				scores[c] += weight * idf
			}
		}
	}
	var list []scored
	for c, score := range scores {
		if score > 0 && len(h.commits[c].files) > 0 {
			score /= math.Pow(float64(8+h.commits[c].terms), h.weights.Length)
			list = append(list, scored{number: uint32(c), score: score * h.age(uint32(c))})
		}
	}
	order(list)
	list = list[:min(h.weights.Similar, len(list))]
	votes := map[uint32]*scored{}
	for _, c := range list {
		files := h.commits[c.number].files
		h.vote(votes, files, c.number, c.score/math.Pow(float64(len(files)), h.weights.Spread))
	}
	return h.result(votes, func(from uint32) string { return "commit " + short(h.commits[from].id) })
}

// Topics returns the files whose past commits, taken together, have the words of a question in their
// messages, best first: all messages of a file are one document, in which recent commits count more.
func (h *History) Topics(q terms.QueryTerms) []rank.Vote {
	votes := map[uint32]*scored{}
	for _, t := range q.Terms {
		commits := h.words[t.Text]
		df := 0
		tf := map[uint32]*scored{}
		for _, c := range commits {
			if !h.sees(c) {
				continue
			}
			df++
			files := h.commits[c].files
			h.vote(tf, files, c, h.age(c)/math.Pow(float64(max(len(files), 1)), h.weights.Spread))
		}
		if df == 0 {
			continue
		}
		weight := math.Log(1 + (float64(h.size)-float64(df)+0.5)/(float64(df)+0.5))
		if t.Head {
			weight *= 2
		}
		for f, v := range tf {
			h.vote(votes, []uint32{f}, v.from, weight*v.score/(v.score+h.weights.Saturation))
		}
	}
	for f, v := range votes {
		v.score /= math.Pow(1+h.activity(f), h.weights.Busy)
	}
	return h.result(votes, func(from uint32) string { return "commit " + short(h.commits[from].id) })
}

// vote adds a commit's vote to files.
func (h *History) vote(votes map[uint32]*scored, files []uint32, from uint32, score float64) {
	for _, f := range files {
		v := votes[f]
		if v == nil {
			v = &scored{number: f, from: from} // the best commit comes first
			votes[f] = v
		}
		v.score += score
	}
}

// result makes votes of files' scores: one for each path that the file ever had, so that the caller
// finds the one that its snapshot has.
func (h *History) result(votes map[uint32]*scored, why func(from uint32) string) []rank.Vote {
	list := make([]scored, 0, len(votes))
	for _, v := range votes {
		list = append(list, *v)
	}
	order(list)
	var out []rank.Vote
	for _, v := range list {
		for _, p := range h.paths[v.number] {
			out = append(out, rank.Vote{Path: p, Score: v.score, Why: why(v.from)})
		}
	}
	return out
}

// short abbreviates a commit's ID for reading.
func short(id string) string { return id[:min(10, len(id))] }

// Together returns the files that changed in the same commits as the seeds, best first. A file counts
// by the share of the seed's commits that changed it too.
func (h *History) Together(seeds []rank.Vote) []rank.Vote {
	votes := map[uint32]*scored{}
	for _, seed := range seeds {
		file, ok := h.files[seed.Path]
		if !ok {
			continue
		}
		var total float64
		shared := map[uint32]float64{}
		for _, c := range h.touched[file] {
			if !h.sees(c) {
				continue
			}
			files := h.commits[c].files
			w := h.age(c)
			total += w
			for _, f := range files {
				if f != file {
					shared[f] += w / math.Log2(1+float64(len(files)))
				}
			}
		}
		for f, w := range shared {
			h.vote(votes, []uint32{f}, file, seed.Score*w/(total+h.weights.Doubt))
		}
	}
	return h.result(votes, func(from uint32) string { return "with " + h.paths[from][0] })
}

// Activity says how often a file changed; recent changes count more.
func (h *History) Activity(path string) float64 {
	if file, ok := h.files[path]; ok {
		return h.activity(file)
	}
	return 0
}

func (h *History) activity(file uint32) float64 {
	var sum float64
	for _, c := range h.touched[file] {
		if h.sees(c) {
			sum += h.age(c)
		}
	}
	return sum
}

// With returns the history with other weights.
func (h *History) With(w Weights) *History {
	v := *h
	v.weights = w
	return &v
}
