package forgetest

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// githubDescription is the maximum length of a status's description.
const githubDescription = 140

func (g *GitHub) checkRoutes() {
	g.on("POST", "/statuses/{sha}", true, (*hub).setStatus)
	g.on("GET", "/commits/{sha}/status", false, func(h *hub) {
		var statuses []*status
		for _, s := range h.repo.latest(h.PathValue("sha")) {
			if !s.job {
				statuses = append(statuses, s)
			}
		}
		sendPage(h, statuses, func(s *status) object {
			return object{"id": s.id, "state": s.state, "context": s.context, "description": s.description, "target_url": s.url, "created_at": s.created}
		}, func(part []object) any {
			return object{"state": "pending", "sha": h.PathValue("sha"), "total_count": len(statuses), "statuses": part}
		})
	})
	g.on("GET", "/commits/{sha}/check-runs", false, func(h *hub) {
		var jobs []*status
		for _, s := range h.repo.latest(h.PathValue("sha")) {
			if s.job {
				jobs = append(jobs, s)
			}
		}
		sendPage(h, jobs, h.shownJob, func(part []object) any { return object{"total_count": len(jobs), "check_runs": part} })
	})
	g.on("GET", "/check-runs/{id}", false, func(h *hub) {
		if s := h.job(); s != nil {
			h.send(http.StatusOK, h.shownJob(s))
		}
	})
	g.on("GET", "/actions/jobs/{id}/logs", false, func(h *hub) {
		s := h.job()
		switch {
		case s == nil:
		case s.log == "":
			h.fail(http.StatusNotFound, "Not Found")
		default:
			http.Redirect(h.ResponseWriter, h.Request, h.storage.URL+"/"+strconv.FormatInt(s.id, 10)+"?sig=signature", http.StatusFound)
		}
	})
	g.protectionRoutes()
}

func (g *GitHub) protectionRoutes() {
	g.on("GET", "/rules/branches/{branch...}", false, func(h *hub) {
		var checks []object
		if h.PathValue("branch") == h.repo.DefaultBranch {
			for _, name := range h.repo.required {
				checks = append(checks, object{"context": name})
			}
		}
		rules := []object{}
		if len(checks) > 0 {
			rules = append(rules, object{"type": "required_status_checks", "ruleset_id": 1, "parameters": object{"required_status_checks": checks, "strict_required_status_checks_policy": false}})
		}
		h.send(http.StatusOK, rules)
	})
	g.on("GET", "/branches/{branch}", false, func(h *hub) {
		commit := h.repo.Head(h.PathValue("branch"))
		if commit == "" {
			h.fail(http.StatusNotFound, "Branch not found")
			return
		}
		h.send(http.StatusOK, object{"name": h.PathValue("branch"), "commit": object{"sha": commit}, "protected": false})
	})
}

func (h *hub) setStatus() {
	var in struct {
		State       forge.CheckState
		Context     string
		Description string
		TargetURL   string `json:"target_url"`
	}
	if !h.read(&in) {
		return
	}
	commit, err := revision(h.repo.dir, h.PathValue("sha"))
	if err != nil {
		h.fail(http.StatusUnprocessableEntity, "No commit found for SHA: "+h.PathValue("sha"))
		return
	}
	if utf8.RuneCountInString(in.Description) > githubDescription {
		h.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "Status", "code": "custom", "message": "description is too long (maximum is 140 characters)"})
		return
	}
	made := &status{id: h.id(), context: in.Context, state: in.State, description: in.Description, url: in.TargetURL, created: h.tick()}
	h.repo.statuses[commit] = append(h.repo.statuses[commit], made)
	h.send(http.StatusCreated, object{"id": made.id, "state": made.state, "context": made.context})
}

// job returns the job of the path, nil if it was answered that it does not exist.
func (h *hub) job() *status {
	id, _ := strconv.ParseInt(h.PathValue("id"), 10, 64)
	if found := h.repo.job(id); found != nil {
		return found
	}
	h.fail(http.StatusNotFound, "Not Found")
	return nil
}

func (r *Repository) job(id int64) *status {
	for _, all := range r.statuses {
		for _, s := range all {
			if s.id == id && s.job {
				return s
			}
		}
	}
	return nil
}

func (h *hub) shownJob(s *status) object {
	phase, conclusion := "completed", any(string(s.state))
	switch s.state {
	case forge.CheckPending:
		phase, conclusion = "in_progress", nil
	case forge.CheckError:
		conclusion = "cancelled"
	default:
	}
	return object{
		"id": s.id, "name": s.context, "status": phase, "conclusion": conclusion, "html_url": h.URL() + "/job/" + strconv.FormatInt(s.id, 10),
		"output": object{"title": nil, "summary": nil}, "app": object{"slug": "github-actions"},
	}
}

// serveLog is the store of logs. It refuses credentials, as that of GitHub does.
func (g *GitHub) serveLog(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("Authorization") != "" || r.URL.Query().Get("sig") != "signature" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	id, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/"), 10, 64)
	for _, repo := range g.repos {
		if s := repo.job(id); s != nil {
			_, _ = w.Write([]byte(s.log))
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}
