package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// ui is the Web UI behind a check of the Host header.
type ui struct {
	server *uiserver.Server
	front  *http.Server
}

// startUI serves the Web UI on ip:port, for the frontend at the given address. It returns once the
// UI responds.
//
// The UI itself accepts any host name, so a web site whose name resolves to this machine (DNS
// rebinding) could use it to read all histories and signal workflows. Therefore, the UI listens on
// an unpredictable address of the loopback network, behind a proxy that checks the name.
func startUI(ctx context.Context, ip string, port int, frontend string) (*ui, error) {
	behind := privateLoopback()
	behindPort, err := claimPort(ctx, "ui-port", behind, 0)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("starting the Web UI: %w", err)
	}
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort(behind, strconv.Itoa(behindPort))}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	u := &ui{
		server: uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
			Host:                behind,
			Port:                behindPort,
			TemporalGRPCAddress: frontend,
			EnableUI:            true,
			HideLogs:            true,
			// The UI is served over plain HTTP, for which browsers reject secure cookies.
			CORS: uiconfig.CORS{CookieInsecure: true},
			// A development server does not access the internet.
			DisableNewsFetch:   true,
			NotifyOnNewVersion: false,
		})),
		front: &http.Server{Handler: byKnownName(proxy), ReadHeaderTimeout: 10 * time.Second},
	}
	// Start blocks, and exits the process if it cannot listen.
	go func() { _ = u.server.Start() }()
	go func() { _ = u.front.Serve(listener) }()

	address := "http://" + hostPort(ip, port) + "/healthz"
	if err := eventually(ctx, 20*time.Second, func(ctx context.Context) error { return getOK(ctx, address) }); err != nil {
		u.Stop()
		return nil, fmt.Errorf("starting the Web UI at %s: %w", address, err)
	}
	return u, nil
}

// Stop stops the UI and closes all its connections.
func (u *ui) Stop() {
	_ = u.front.Close()
	u.server.Stop()
}

// privateLoopback is an address of this machine that no other program uses or guesses.
func privateLoopback() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

// byKnownName accepts only requests for an IP address, localhost or this machine's host name, which
// a web site cannot use as its own name.
func byKnownName(next http.Handler) http.Handler {
	machine, _ := os.Hostname()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		name = strings.Trim(name, "[]")
		if net.ParseIP(name) == nil && !strings.EqualFold(name, "localhost") && !strings.EqualFold(name, machine) {
			http.Error(w, "Unrecognized Host header", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
