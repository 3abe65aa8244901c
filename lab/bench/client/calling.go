package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"
)

type extenderArgs struct {
	Pod       map[string]any
	Nodes     *struct{}
	NodeNames *[]string
}

type filterResult struct {
	Nodes                      *struct{}
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

type hostPriority struct {
	Host  string
	Score int64
}

// outcome is one call: answered when the last byte of the body was read, decoded when the scheduler could go on.
type outcome struct {
	answered, decoded time.Duration
	err               error
}

type tlsFiles struct{ ca, certificate, key string }

func (f tlsFiles) config() (*tls.Config, error) {
	if f.ca == "" {
		return nil, nil
	}
	authority, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", f.ca)
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if f.certificate != "" {
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// caller is one scheduler's client for one extender; its buffer is reused, so it is not for two goroutines at once.
type caller struct {
	url    string
	client *http.Client
	body   bytes.Buffer
	opened *atomic.Int64
}

func newCaller(url string, timeout time.Duration, files tlsFiles) (*caller, error) {
	config, err := files.config()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	return &caller{url: url, client: &http.Client{Transport: transport, Timeout: timeout}, opened: &atomic.Int64{}}, nil
}

// post sends one request. The body is read to its end before it is decoded, so that the two times can be told apart.
func (c *caller) post(verb string, body []byte, result any) outcome {
	request, err := http.NewRequest(http.MethodPost, c.url+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	trace := &httptrace.ClientTrace{ConnectStart: func(string, string) { c.opened.Add(1) }}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	start := time.Now()
	response, err := c.client.Do(request)
	if err != nil {
		return outcome{err: err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return outcome{err: fmt.Errorf("%s: status %d", verb, response.StatusCode)}
	}
	c.body.Reset()
	if _, err := io.Copy(&c.body, response.Body); err != nil {
		return outcome{err: err}
	}
	answered := time.Since(start)
	err = json.NewDecoder(&c.body).Decode(result)
	return outcome{answered: answered, decoded: time.Since(start), err: err}
}

// stream sends one request and decodes straight from the connection, byte for byte as HTTPExtender does.
func (c *caller) stream(verb string, body []byte, result any) outcome {
	request, err := http.NewRequest(http.MethodPost, c.url+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	trace := &httptrace.ClientTrace{ConnectStart: func(string, string) { c.opened.Add(1) }}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	start := time.Now()
	response, err := c.client.Do(request)
	if err != nil {
		return outcome{err: err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return outcome{err: fmt.Errorf("%s: status %d", verb, response.StatusCode)}
	}
	err = json.NewDecoder(response.Body).Decode(result)
	took := time.Since(start)
	return outcome{answered: took, decoded: took, err: err}
}
