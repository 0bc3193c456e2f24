package forgetest

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// GitHub is a GitHub Enterprise Server in memory, at the address URL(). It has the parts of the API
// that pull requests need, and serves its repositories to git.
type GitHub struct {
	server
	mux     *http.ServeMux
	storage *httptest.Server // of logs; it refuses credentials, as that of GitHub
	apps    map[int64]*githubApp
}

// githubApp is a GitHub App with one installation, which has access to every repository.
type githubApp struct {
	slug         string
	key          *rsa.PublicKey
	installation int64
	permissions  map[string]string
	tokens       int // how many were made
}

// NewGitHub starts a GitHub.
func NewGitHub(tb testing.TB) *GitHub {
	tb.Helper()
	g := &GitHub{mux: http.NewServeMux(), apps: map[int64]*githubApp{}}
	start(tb, g.mux, &g.server)
	g.storage = httptest.NewServer(http.HandlerFunc(g.serveLog))
	tb.Cleanup(g.storage.Close)
	g.routes()
	return g
}

// App registers a GitHub App with the public half of its key and returns its ID. Its installation
// has access to every repository.
func (g *GitHub) App(slug string, key *rsa.PublicKey, permissions map[string]string) (id, installation int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, installation = g.id(), g.id()
	g.apps[id] = &githubApp{slug: slug, key: key, installation: installation, permissions: permissions}
	return id, installation
}

// Reinstall gives an App another installation; the former one is gone.
func (g *GitHub) Reinstall(app int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apps[app].installation = g.id()
	g.users = slices.DeleteFunc(g.users, func(u *User) bool { return u.Login == g.apps[app].slug+"[bot]" })
}

// Tokens returns how many tokens an App's installations have received.
func (g *GitHub) Tokens(app int64) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.apps[app].tokens
}

// hub is a request to GitHub.
type hub struct {
	*GitHub
	http.ResponseWriter
	*http.Request
	user *User
	repo *Repository
}

// object is a JSON object.
type object = map[string]any

// on registers a handler for a path of a repository. write: the account needs to be allowed to write.
func (g *GitHub) on(method, path string, write bool, handle func(*hub)) {
	pattern := method + " /api/v3/repos/{owner}/{repo}" + path
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		h := g.begin(pattern, w, r)
		if h == nil {
			return
		}
		h.repo = g.repoAt(r.PathValue("owner") + "/" + r.PathValue("repo"))
		switch {
		case h.repo == nil || h.permission(h.user.Login) < forge.PermissionRead:
			h.fail(http.StatusNotFound, "Not Found")
		case write && h.permission(h.user.Login) < forge.PermissionWrite:
			w.Header().Set("X-Accepted-GitHub-Permissions", "contents=write; pull_requests=write")
			h.fail(http.StatusForbidden, "Resource not accessible by personal access token")
		default:
			handle(h)
		}
	})
}

// begin identifies the account of a request; nil: it was refused.
func (g *GitHub) begin(pattern string, w http.ResponseWriter, r *http.Request) *hub {
	g.requests[pattern]++
	h := &hub{GitHub: g, ResponseWriter: w, Request: r}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if h.user = g.byToken(token); h.user == nil {
		h.fail(http.StatusUnauthorized, "Bad credentials")
		return nil
	}
	w.Header().Set("X-RateLimit-Limit", "5000")
	w.Header().Set("X-RateLimit-Remaining", "4999")
	return h
}

func (h *hub) permission(login string) forge.Permission {
	if strings.HasSuffix(login, "[bot]") {
		return forge.PermissionWrite
	}
	return h.repo.members[login]
}

// send writes a response. Those to GET have an ETag.
func (h *hub) send(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{}`)
	}
	h.Header().Set("Content-Type", "application/json; charset=utf-8")
	if h.Method == http.MethodGet && status == http.StatusOK {
		sum := sha256.Sum256(body)
		tag := `W/"` + hex.EncodeToString(sum[:]) + `"`
		h.Header().Set("ETag", tag)
		if h.Request.Header.Get("If-None-Match") == tag {
			h.same++
			h.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.WriteHeader(status)
	_, _ = h.ResponseWriter.Write(body)
}

// Header returns the response's headers.
func (h *hub) Header() http.Header { return h.ResponseWriter.Header() }

// Write is that of the response.
func (h *hub) Write(p []byte) (int, error) { return h.ResponseWriter.Write(p) }

func (h *hub) fail(status int, message string, errs ...object) {
	body := object{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)}
	if len(errs) > 0 {
		body["errors"] = errs
	}
	h.send(status, body)
}

// invalid refuses a request as GitHub does if a field is wrong.
func (h *hub) invalid(resource, message string) {
	h.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": resource, "code": "custom", "message": message})
}

// list sends a page.
func list[T any](h *hub, all []T, shown func(T) object) {
	sendPage(h, all, shown, func(part []object) any { return part })
}

// sendPage sends a page within another object.
func sendPage[T any](h *hub, all []T, shown func(T) object, within func([]object) any) {
	part, next := page(&h.server, h.Request, all)
	if next > 0 {
		h.Header().Set("Link", nextLink(h.URL(), h.Request, next))
	}
	out := make([]object, 0, len(part))
	for _, one := range part {
		out = append(out, shown(one))
	}
	h.send(http.StatusOK, within(out))
}

// URL returns the address of the forge's start page; Request.URL is shadowed.
func (h *hub) URL() string { return h.server.URL() }

// read decodes the request.
func (h *hub) read(into any) bool {
	if err := json.NewDecoder(h.Body).Decode(into); err != nil {
		h.fail(http.StatusBadRequest, "Problems parsing JSON")
		return false
	}
	return true
}

func (h *hub) account(login string) object {
	kind := "User"
	if user := h.server.user(login); user != nil && user.Bot || strings.HasSuffix(login, "[bot]") {
		kind = "Bot"
	}
	return object{"login": login, "type": kind}
}

func (g *GitHub) routes() {
	g.mux.HandleFunc("GET /api/v3/user", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if h := g.begin("GET /user", w, r); h != nil {
			w.Header().Set("X-OAuth-Scopes", "repo, workflow")
			h.send(http.StatusOK, h.account(h.user.Login))
		}
	})
	g.on("GET", "", false, func(h *hub) {
		level := h.permission(h.user.Login)
		body := h.repository()
		body["permissions"] = object{"admin": level >= forge.PermissionAdmin, "push": level >= forge.PermissionWrite, "pull": true}
		h.send(http.StatusOK, body)
	})
	g.on("GET", "/collaborators/{login}/permission", true, func(h *hub) {
		user := h.server.user(h.PathValue("login"))
		if user == nil {
			h.fail(http.StatusNotFound, h.PathValue("login")+" is not a user")
			return
		}
		name := map[forge.Permission]string{forge.PermissionRead: "read", forge.PermissionWrite: "write", forge.PermissionAdmin: "admin"}[h.permission(user.Login)]
		if name == "" {
			name = "none"
		}
		h.send(http.StatusOK, object{"permission": name, "role_name": name, "user": h.account(user.Login)})
	})
	g.appRoutes()
	g.pullRoutes()
	g.issueRoutes()
	g.checkRoutes()
}

func (h *hub) repository() object {
	owner, name, _ := strings.Cut(h.repo.Path, "/")
	return object{
		"id": h.repo.ID, "full_name": h.repo.Path, "name": name, "owner": h.account(owner), "private": true, "default_branch": h.repo.DefaultBranch,
	}
}

// appRoutes are those of GitHub Apps, which identify themselves with a signed token.
func (g *GitHub) appRoutes() {
	app := func(w http.ResponseWriter, r *http.Request) (*hub, *githubApp) {
		h := &hub{GitHub: g, ResponseWriter: w, Request: r}
		_, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		claims := &jwt.RegisteredClaims{}
		var found *githubApp
		_, err := jwt.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) {
			id, _ := strconv.ParseInt(claims.Issuer, 10, 64)
			if found = g.apps[id]; found == nil {
				return nil, jwt.ErrTokenInvalidIssuer
			}
			return found.key, nil
		}, jwt.WithValidMethods([]string{"RS256"}))
		if err != nil || found == nil {
			h.fail(http.StatusUnauthorized, "A JSON web token could not be decoded")
			return nil, nil
		}
		return h, found
	}
	g.mux.HandleFunc("GET /api/v3/app", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if h, a := app(w, r); h != nil {
			h.send(http.StatusOK, object{"slug": a.slug})
		}
	})
	g.mux.HandleFunc("GET /api/v3/repos/{owner}/{repo}/installation", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		h, a := app(w, r)
		switch {
		case h == nil:
		case g.repoAt(r.PathValue("owner")+"/"+r.PathValue("repo")) == nil:
			h.fail(http.StatusNotFound, "Not Found")
		default:
			h.send(http.StatusOK, object{"id": a.installation})
		}
	})
	g.mux.HandleFunc("POST /api/v3/app/installations/{id}/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		h, a := app(w, r)
		switch {
		case h == nil:
		case r.PathValue("id") != strconv.FormatInt(a.installation, 10):
			h.fail(http.StatusNotFound, "Not Found")
		default:
			a.tokens++
			user := &User{ID: g.id(), Login: a.slug + "[bot]", Token: "ghs_" + strconv.FormatInt(g.id(), 10) + strings.Repeat("x", 30), Bot: true}
			g.users = append(g.users, user)
			h.send(http.StatusCreated, object{"token": user.Token, "expires_at": time.Now().Add(time.Hour), "permissions": a.permissions})
		}
	})
}
