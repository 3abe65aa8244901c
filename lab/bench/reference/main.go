// Reference is the extender that ours is measured against: it decodes a request, looks every name up in a map and
// encodes the answer. It knows no loads, keeps no count and judges nothing, so it shows what HTTP and JSON alone cost
// in Go with the standard library. `bench` builds it, starts it beside ours and asks both the same questions.
//
//	reference -listen 127.0.0.1:9000 -nodes FILE    (FILE: one node name per line)
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"
)

type extenderArgs struct {
	Pod struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	NodeNames *[]string
}

type filterResult struct {
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

type hostPriority struct {
	Host  string
	Score int64
}

// scores holds a fixed score per node. It is filled before the server starts and only read afterwards.
type scores map[string]int64

func (s scores) filter(args *extenderArgs) any {
	passed := make([]string, 0, len(*args.NodeNames))
	failed := map[string]string{}
	for _, name := range *args.NodeNames {
		if _, known := s[name]; known {
			passed = append(passed, name)
		} else {
			failed[name] = "unknown"
		}
	}
	return filterResult{NodeNames: &passed, FailedNodes: map[string]string{}, FailedAndUnresolvableNodes: failed}
}

func (s scores) prioritize(args *extenderArgs) any {
	ranked := make([]hostPriority, 0, len(*args.NodeNames))
	for _, name := range *args.NodeNames {
		ranked = append(ranked, hostPriority{Host: name, Score: s[name]})
	}
	return ranked
}

func answer(decide func(*extenderArgs) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.NodeNames == nil {
			http.Error(w, "expected ExtenderArgs with NodeNames", http.StatusBadRequest)
			return
		}
		body, err := json.Marshal(decide(&args))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // a client that went away has no use for the error
	}
}

func read(path string) (scores, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	known := scores{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		known[lines.Text()] = int64(len(known) % 11)
	}
	return known, lines.Err()
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address to serve on")
	nodes := flag.String("nodes", "", "file with one node name per line")
	certificate := flag.String("cert", "", "serve TLS with this certificate; needs -key and -client-ca")
	key := flag.String("key", "", "its key")
	clientCA := flag.String("client-ca", "", "CA of the only clients that are answered")
	flag.Parse()
	known, err := read(*nodes)
	if err != nil {
		log.Fatalf("-nodes: %v", err)
	}
	http.HandleFunc("POST /filter", answer(known.filter))
	http.HandleFunc("POST /prioritize", answer(known.prioritize))
	if *certificate == "" {
		log.Fatal(http.ListenAndServe(*listen, nil))
	}
	authority, err := os.ReadFile(*clientCA)
	if err != nil {
		log.Fatalf("-client-ca: %v", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		log.Fatalf("-client-ca: %s holds no certificate", *clientCA)
	}
	config := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12}
	// HTTP/1.1 as over plain TCP: HTTP/2, which Go would agree on, takes half as long again for one request at a time.
	none := map[string]func(*http.Server, *tls.Conn, http.Handler){}
	server := &http.Server{Addr: *listen, TLSConfig: config, TLSNextProto: none}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}
