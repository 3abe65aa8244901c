package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// timeout is wide, so that a slow machine is not taken for a lost connection.
const timeout = 120 * time.Second

// linger is a little less than how long a stopping extender serves on. A client that itself takes longer between a reply and
// its next request, because the machine let it wait, was promised nothing: should that request fail, its kind is "late".
const linger = 1900 * time.Millisecond

type files struct{ ca, certificate, key string }

func (f files) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		authority, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("%s holds no certificate", f.ca)
		}
	}
	if f.certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

type scheduler struct {
	url    string
	client *http.Client
	ended  time.Time // when the last request had ended
}

// filterResult is what the scheduler reads of an answer.
type filterResult struct {
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

func newScheduler(scheme, addressFile string, own files, counted *tally) (*scheduler, error) {
	config, err := own.config()
	if err != nil {
		return nil, err
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		counted.Lock()
		defer counted.Unlock()
		serial := state.PeerCertificates[0].SerialNumber.String()
		if !slices.Contains(counted.Serials, serial) {
			counted.Serials = append(counted.Serials, serial)
		}
		return nil
	}
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		address, err := readAddress(addressFile)
		if err != nil {
			return nil, err
		}
		connection, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			counted.Lock()
			counted.Connections[address]++
			counted.Unlock()
		}
		return connection, err
	}
	transport := &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: timeout,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	return &scheduler{url: scheme + "://127.0.0.1/filter", client: &http.Client{Transport: transport, Timeout: timeout}}, nil
}

// filter asks once and says whether it was this client that came late, if that fails.
func (s *scheduler) filter(body []byte, names int) error {
	var wrote atomic.Pointer[time.Time] // the transport says so on a goroutine of its own
	note := func(httptrace.WroteRequestInfo) { now := time.Now(); wrote.Store(&now) }
	err := s.ask(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{WroteRequest: note}), body, names)
	ended := time.Now()
	sent := wrote.Load()
	if sent == nil {
		sent = &ended
	}
	if err != nil && !s.ended.IsZero() && sent.Sub(s.ended) > linger {
		err = lateError{err}
	}
	s.ended = ended
	return err
}

// ask expects all of `names` nodes back, as of an extender that knows nothing of them.
func (s *scheduler) ask(ctx context.Context, body []byte, names int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return statusError(response.StatusCode)
	}
	var answered filterResult
	if err := json.NewDecoder(response.Body).Decode(&answered); err != nil {
		return err
	}
	if answered.Error != "" || answered.NodeNames == nil || len(*answered.NodeNames) != names {
		return wrongAnswer(fmt.Sprintf("%+v", answered))
	}
	return nil
}

type lateError struct{ error }

type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

type wrongAnswer string

func (w wrongAnswer) Error() string { return "not all names came back: " + string(w) }

// kindOf puts an error into one of few kinds.
func kindOf(err error) string {
	var status statusError
	var wrong wrongAnswer
	var late lateError
	switch {
	case errors.As(err, &late):
		return "late"
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &wrong):
		return "wrong answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "server closed idle"):
		return "closed"
	case os.IsTimeout(err):
		return "timeout"
	case strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "):
		return "tls"
	}
	return "other"
}

// request is an ExtenderArgs with names only.
func request(names int) []byte {
	asked := make([]string, names)
	for number := range asked {
		asked[number] = fmt.Sprintf("node-%d", number)
	}
	pod := map[string]any{"metadata": map[string]any{"name": "p", "namespace": "default", "uid": "u"}, "spec": map[string]any{}}
	body, err := json.Marshal(map[string]any{"Pod": pod, "Nodes": nil, "NodeNames": asked})
	if err != nil {
		panic(err)
	}
	return body
}
