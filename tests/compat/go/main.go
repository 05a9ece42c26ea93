// Drives RocketMQ's Go client for the tests, told and answering in JSON.
//
// Requests come on stdin, one per line, and each is answered with one line on stdout, in order:
// {"result": ...} or {"error": text}. Producers and consumers have names, which later requests use.
//
//	topic      {"broker", "topic", "queues"}                      makes a topic, and waits until it has a route
//	producer   {"name", "group", "select": "round", "hash" or "manual"}
//	send       {"name", "how": "sync", "async", "oneway" or "batch", "messages": [message]}
//	transaction {"name", "group"}                                  a producer that ends transactions as messages say
//	transact   {"name", "messages": [message]}                     each in a transaction, with a property "fate"
//	questions  {"name", "count", "timeoutMs"}                      all that the broker asked, at the latest when count did
//	request    {"name", "message": message, "timeoutMs"}           waits for the reply
//	push       {"name", "group", "topic", "expression", "model": "clustering" or "broadcasting",
//	            "orderly", "retries", "retryLevel"}                 the first `retries` deliveries ask for another
//	pull       {"name", "group", "topic"}                          a pull consumer, polled all the time
//	received   {"name", "count", "timeoutMs"}                      all that came, at the latest when count did
//	stop       {"name"}
//
// Every request that starts something has "namesrv" too. A message is {"topic", "body", "bodyHex", "tags",
// "keys": [text], "properties": {...}, "delayLevel", "shardingKey", "queue"}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// Request has the fields of every command; those that a command does not use are left out.
type Request struct {
	Command    string    `json:"command"`
	Namesrv    string    `json:"namesrv"`
	Broker     string    `json:"broker"`
	Name       string    `json:"name"`
	Group      string    `json:"group"`
	Topic      string    `json:"topic"`
	Queues     int       `json:"queues"`
	Select     string    `json:"select"`
	How        string    `json:"how"`
	Message    *Message  `json:"message"`
	Messages   []Message `json:"messages"`
	Expression string    `json:"expression"`
	Model      string    `json:"model"`
	Orderly    bool      `json:"orderly"`
	Retries    int32     `json:"retries"`
	RetryLevel int       `json:"retryLevel"`
	Count      int       `json:"count"`
	TimeoutMs  int       `json:"timeoutMs"`
}

// Message is a message to send.
type Message struct {
	Topic       string            `json:"topic"`
	Body        string            `json:"body"`
	BodyHex     string            `json:"bodyHex"`
	Tags        string            `json:"tags"`
	Keys        []string          `json:"keys"`
	Properties  map[string]string `json:"properties"`
	DelayLevel  int               `json:"delayLevel"`
	ShardingKey string            `json:"shardingKey"`
	Queue       int               `json:"queue"`
}

func main() {
	rlog.SetLogLevel(level()) // it writes to stderr, which the tests keep
	requests := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	clients := newClients()
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return // the tests are done
		}
		result, err := answer(clients, line)
		if err != nil {
			err = answers.Encode(map[string]string{"error": err.Error()})
		} else {
			err = answers.Encode(map[string]interface{}{"result": result})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "no answer possible:", err)
			os.Exit(1)
		}
	}
}

func level() string {
	if chosen := os.Getenv("ROCKETMQ_GO_LOG_LEVEL"); chosen != "" {
		return chosen
	}
	return "warn"
}

func answer(clients *Clients, line []byte) (interface{}, error) {
	var request Request
	if err := json.Unmarshal(line, &request); err != nil {
		return nil, err
	}
	switch request.Command {
	case "topic":
		return nil, makeTopic(request)
	case "producer":
		return nil, clients.startProducer(request)
	case "send":
		return clients.send(request)
	case "transaction":
		return nil, clients.startTransactions(request)
	case "transact":
		return clients.transact(request)
	case "questions":
		return clients.questions(request)
	case "request":
		return clients.request(request)
	case "push":
		return nil, clients.startPush(request)
	case "pull":
		return nil, clients.startPull(request)
	case "received":
		return clients.received(request)
	case "stop":
		return nil, clients.stop(request.Name)
	}
	return nil, fmt.Errorf("unknown command %q", request.Command)
}
