package kubeproxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// modeInEffect is what the running kube-proxy says of itself: it has run in another mode than the one asked for where a
// kernel lacked something, and only said so in its log.
type modeInEffect struct {
	url  string // empty: kube-proxy's own
	mode string // empty: it was not asked yet, or did not answer
}

const askLimit = time.Second

// proxier is the name of the proxier that runs, "kube-proxy/ipvs"; empty if kube-proxy does not say. A process keeps its
// mode, so it is asked until it has answered once.
func (m *modeInEffect) proxier(ctx context.Context) string {
	if m.mode == "" {
		m.mode = m.ask(context.WithoutCancel(ctx)) // the last report comes when ctx is done
	}
	if m.mode == "" {
		return ""
	}
	return "kube-proxy/" + m.mode
}

func (m *modeInEffect) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	url := m.url
	if url == "" {
		url = "http://" + metricsAddress + "/proxyMode"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ""
	}
	transport := &http.Transport{DisableKeepAlives: true} // never through a proxy of the environment
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(body))
}
