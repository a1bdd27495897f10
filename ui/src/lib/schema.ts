// Made by `npm run types` from openapi.json, which `treecast fleet api` prints.

export interface paths {
    "/api/asks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask hosts
         * @description Needs the role operator or a higher one.
         */
        post: operations["ask_hosts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/asks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show answers
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_answers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/asks/{id}/times": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show times of answers
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_times_of_answers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show the log
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_the_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Follow changes
         * @description Needs the role viewer or a higher one.
         */
        get: operations["follow_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/checks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List checks
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_checks"];
        put?: never;
        /**
         * Check hosts
         * @description Needs the role operator or a higher one.
         */
        post: operations["check_hosts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/checks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show a check
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_a_check"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/codes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a code
         * @description Needs the role administrator or a higher one.
         */
        post: operations["make_a_code"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count hosts
         * @description Needs the role viewer or a higher one.
         */
        get: operations["count_hosts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List deliveries
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_deliveries"];
        put?: never;
        /**
         * Deliver files
         * @description Needs the role operator or a higher one.
         */
        post: operations["deliver_files"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/deliveries/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show a delivery
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_a_delivery"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/deliveries/{id}/abort": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Abort a delivery
         * @description Needs the role operator or a higher one.
         */
        post: operations["abort_a_delivery"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List groups
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_groups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/groups/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Save a group
         * @description Needs the role operator or a higher one.
         */
        put: operations["save_a_group"];
        post?: never;
        /**
         * Remove a group
         * @description Needs the role operator or a higher one.
         */
        delete: operations["remove_a_group"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hosts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List hosts
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_hosts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hosts/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show a host
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_a_host"];
        put?: never;
        post?: never;
        /**
         * Forget a host
         * @description Needs the role administrator or a higher one.
         */
        delete: operations["forget_a_host"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hosts/{name}/tags": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Tag a host
         * @description Needs the role operator or a higher one.
         */
        put: operations["tag_a_host"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a link
         * @description Needs the role viewer or a higher one.
         */
        post: operations["make_a_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Log in by a token */
        post: operations["log_in_by_a_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Log out
         * @description Needs the role viewer or a higher one.
         */
        post: operations["log_out"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Say who asks
         * @description Needs the role viewer or a higher one.
         */
        get: operations["say_who_asks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Describe the API */
        get: operations["describe_the_API"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/releases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List releases
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_releases"];
        put?: never;
        /**
         * Add a release
         * @description Needs the role release-manager or a higher one.
         */
        post: operations["add_a_release"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/releases/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Withdraw a release
         * @description Needs the role release-manager or a higher one.
         */
        delete: operations["withdraw_a_release"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/releases/{id}/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Verify a release
         * @description Needs the role operator or a higher one.
         */
        post: operations["verify_a_release"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rollouts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List rollouts
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_rollouts"];
        put?: never;
        /**
         * Roll out
         * @description Needs the role release-manager or a higher one.
         */
        post: operations["roll_out"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rollouts/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Plan a rollout
         * @description Needs the role viewer or a higher one.
         */
        post: operations["plan_a_rollout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rollouts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show a rollout
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_a_rollout"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rollouts/{id}/{change}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Change a rollout
         * @description Needs the role release-manager or a higher one.
         */
        post: operations["change_a_rollout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List runs
         * @description Needs the role viewer or a higher one.
         */
        get: operations["list_runs"];
        put?: never;
        /**
         * Run an experiment
         * @description Needs the role operator or a higher one.
         */
        post: operations["run_an_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Plan an experiment
         * @description Needs the role viewer or a higher one.
         */
        post: operations["plan_an_experiment"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show a run
         * @description Needs the role viewer or a higher one.
         */
        get: operations["show_a_run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/abort": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Abort a run
         * @description Needs the role operator or a higher one.
         */
        post: operations["abort_a_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/results": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the results of a run
         * @description Needs the role viewer or a higher one.
         */
        get: operations["get_the_results_of_a_run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tokens/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a token
         * @description Needs the role administrator or a higher one.
         */
        post: operations["make_a_token"];
        /**
         * End a token
         * @description Needs the role administrator or a higher one.
         */
        delete: operations["end_a_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/uploads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begin an upload
         * @description Needs the role operator or a higher one.
         */
        post: operations["begin_an_upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/uploads/{upload}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete an upload
         * @description Needs the role operator or a higher one.
         */
        delete: operations["delete_an_upload"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/uploads/{upload}/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Upload a file
         * @description Needs the role operator or a higher one.
         */
        put: operations["upload_a_file"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Log in by a link */
        get: operations["log_in_by_a_link"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/login/back": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** End a login by the identity provider */
        get: operations["end_a_login_by_the_identity_provider"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/login/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Begin a login by the identity provider */
        get: operations["begin_a_login_by_the_identity_provider"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read figures
         * @description Needs the role viewer or a higher one.
         */
        get: operations["read_figures"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description A release that was added. */
        Added: {
            /** Format: int64 */
            id: number;
        };
        /** @description What one host has answered so far. */
        Answer: {
            end?: null | components["schemas"]["End"];
            /** @description The reason why there is no answer. */
            failure?: string | null;
            host: string;
            is_over: boolean;
            /** @description What the program has printed. */
            lines: string[];
            /** @description What a question came to that starts no program. */
            value?: unknown;
        };
        /** @description A question that was asked. */
        Asked: {
            /** @description The names of the hosts that were asked. */
            hosts: string[];
            /**
             * Format: int64
             * @description The number of the question.
             */
            id: number;
        };
        /** @description A line of the log of who did what. */
        AuditEntry: {
            about: string;
            /** Format: int64 */
            at_ms: number;
            is_refused: boolean;
            what: string;
            who: string;
        };
        /** @description An upload that was begun. */
        Begun: {
            upload: string;
        };
        /**
         * @description The bound that a search has found for the network: a rate in packets a second of each sender, or a number of
         *     hosts.
         */
        Bound: {
            /**
             * Format: double
             * @description The lowest value that was not borne. `None`: even the highest one was.
             */
            broke: number | null;
            /** @description The parts that gave in at `broke`. */
            limits: string[];
            /** @description Whether the machine gave in, and not the network. */
            machine_limited: boolean;
            /**
             * Format: double
             * @description The bound that the links allow. `None`: no link has a rate.
             */
            predicted: number | null;
            run: string;
            /**
             * Format: double
             * @description The highest value that was borne. `None`: not even the lowest one was.
             */
            threshold: number | null;
        };
        /** @description Somebody who has proved who it is. */
        Caller: {
            name: string;
            role: components["schemas"]["Role"];
        };
        /** @description Something that has changed, for those who look on. */
        Change: {
            /** @enum {string} */
            changed: "host";
            /** Format: int64 */
            id: number;
            is_here: boolean;
        } | {
            /** @enum {string} */
            changed: "run";
            /** Format: int64 */
            id: number;
        } | {
            /** @enum {string} */
            changed: "rollout";
            /** Format: int64 */
            id: number;
        } | {
            /** @enum {string} */
            changed: "delivery";
            /** Format: int64 */
            id: number;
        } | {
            /** @enum {string} */
            changed: "groups";
        } | {
            /** @enum {string} */
            changed: "stranger";
            name: string;
            reason: string;
        } | {
            /** @enum {string} */
            changed: "all";
        };
        /** @description A check, as its users see it. */
        Check: {
            /** Format: int64 */
            asked_ms: number;
            group: string | null;
            hosts: components["schemas"]["CheckedHost"][];
            /** Format: int64 */
            id: number;
            is_over: boolean;
            kind: components["schemas"]["CheckKind"];
            /** @description What each host hears of each other one. Empty for a doctor's check, and while one of beacons goes on. */
            pairs: components["schemas"]["Pair"][];
            /** Format: int32 */
            seconds: number;
            select: string;
            who: string;
        };
        /**
         * @description What is checked.
         * @enum {string}
         */
        CheckKind: "doctor" | "beacon";
        /** @description A host of a check. */
        CheckedHost: {
            /** @description The reason why it has told nothing. */
            failure: string | null;
            findings: components["schemas"]["DoctorFinding"][];
            host: string;
            is_over: boolean;
        };
        /** @description The error of a host's time of day. */
        ClockError: {
            /** Format: double */
            ahead_ms: number;
            /** Format: double */
            uncertainty_ms: number;
        };
        /** @description A code that was made. */
        Code: {
            code: string;
            /** Format: int64 */
            ends_ms: number;
            /** Format: int32 */
            uses: number;
        };
        /** @description How many hosts there are. */
        Count: {
            /** @description The number of hosts whose agent is connected. */
            here: number;
            hosts: number;
        };
        /** @description A file of a delivery. */
        DeliveredFile: {
            name: string;
            /** Format: int64 */
            size_bytes: number;
        };
        /** @description A delivery, as its users see it. */
        Delivery: {
            /** Format: int64 */
            ended_ms: number | null;
            files: components["schemas"]["DeliveredFile"][];
            hosts: components["schemas"]["DeliveryHost"][];
            /** Format: int64 */
            id: number;
            into: string;
            /** Format: int64 */
            ordered_ms: number;
            reason: string | null;
            select: string;
            /**
             * Format: int64
             * @description What the session has sent once, and what one connection a host would have.
             */
            sent_bytes: number;
            state: components["schemas"]["DeliveryState"];
            /** Format: int64 */
            unicast_bytes: number;
            who: string;
        };
        /** @description A host of a delivery. */
        DeliveryHost: {
            /**
             * Format: int64
             * @description The bytes that have come there so far.
             */
            bytes: number;
            host: string;
            reason: string | null;
            state: components["schemas"]["ReceiverState"];
        };
        /**
         * @description The state of a delivery.
         * @enum {string}
         */
        DeliveryState: "running" | "done" | "aborted" | "failed";
        /** @description What a doctor has found at its host. */
        DoctorFinding: {
            kind: string;
            /** @description problem or remark */
            level: string;
            seen: string;
            /** @description What to do about it. */
            todo: string;
        };
        /** @description The end of a program, and the resources that it used. */
        End: {
            /**
             * Format: int32
             * @description The exit code; `None` if a signal ended it.
             */
            code: number | null;
            /** @description The end of its standard error. */
            errors?: string;
            /** @description The last line of its standard error. */
            last: string | null;
            /** Format: int64 */
            peak_memory_bytes: number;
            /** Format: int32 */
            signal: number | null;
            /** Format: int64 */
            system_ns: number;
            /** Format: int64 */
            user_ns: number;
        };
        /** @description The answer to a request that is not granted. */
        Error: {
            /** @description What is wrong and what to do, in one line. */
            error: string;
        };
        /** @description The facts of a host. */
        Facts: {
            /**
             * @description The processor architecture, as `uname -m` calls it.
             * @default
             */
            architecture: string;
            /**
             * @description The kernel's number of this start of the host (`/proc/sys/kernel/random/boot_id`).
             * @default
             */
            boot: string;
            /**
             * Format: int64
             * @description The free space of the disk on which the agent keeps files, in bytes.
             * @default 0
             */
            free_bytes: number;
            /** @default  */
            hostname: string;
            /**
             * @description The interface that leads to the manager, or the first.
             * @default
             */
            interface: string;
            /**
             * @description The interfaces that are up, but for the loopback.
             * @default []
             */
            interfaces: components["schemas"]["Interface"][];
            /** @default  */
            kernel: string;
            /**
             * Format: int64
             * @default 0
             */
            memory_bytes: number;
            /** @default  */
            processor: string;
            /**
             * Format: int32
             * @default 0
             */
            processors: number;
            /**
             * @description The active version of each release.
             * @default {}
             */
            releases: {
                [key: string]: string;
            };
            /**
             * @description The name and version of the distribution.
             * @default
             */
            system: string;
            /**
             * @description The version of treecast.
             * @default
             */
            version: string;
        };
        /** @description A client without a verified copy. */
        Failure: {
            node: string;
            reason: string;
            run: string;
        };
        /** @description The result of a client, as events tell it. */
        Fared: {
            /** Format: int32 */
            attempts: number;
            /** Format: int64 */
            dropped_packets: number;
            /** Format: int64 */
            duplicate_bytes: number;
            /** @description The reason why it has none. */
            failure: string | null;
            /** Format: int64 */
            retransmitted_bytes: number;
            /**
             * Format: double
             * @description The time that the delivery took. `None`: the client has no copy.
             */
            seconds: number | null;
        };
        /** @description The result of a claim in one cell. */
        Finding: {
            /** @description The cell in words, such as `S1L20, 32 MiB`. Empty for a claim about all runs. */
            cell: string;
            /** @description The limit that the value had to meet, e.g. `at most 1.15 s`. */
            limit: string;
            /** @description The measured value with its unit, or the reason why there is none. */
            measured: string;
            says: string;
            verdict: components["schemas"]["Verdict"];
        };
        /** @description The result of a run. */
        Finished: {
            clients: number;
            cut_short: boolean;
            /** @description The values of the whole run, by measure. */
            measures: {
                [key: string]: number | null;
            };
            number: number;
            /** @description The reason why the program refused to do what the run asks of it. */
            refused: string | null;
            run: string;
            /** @description The reason why this machine limited the run, and not the network. */
            saturated: string | null;
            /** @description The result of the run in one sentence. */
            says: string;
            /** Format: double */
            seconds: number;
            /** @description The number of clients that got all that they were to get. */
            whole: number;
        };
        /** @description The cost of a ring's session by one fanout, as the simulator finds it. */
        Forecast: {
            /** @description `multicast` or `unicast`. `--fanout auto` has the cost of multicast where the network has it, and of unicast where it has not. */
            fanout: string;
            /** Format: double */
            seconds: number;
            /** Format: int64 */
            sender_bytes: number;
        };
        /** @description A selection that was saved. */
        Group: {
            /** @description The number of hosts that it selects now. */
            hosts: number;
            name: string;
            selection: string;
        };
        /** @description A host of the fleet. */
        Host: {
            clock: null | components["schemas"]["ClockError"];
            facts: components["schemas"]["Facts"];
            /** Format: int64 */
            id: number;
            /** @description Whether the agent is connected. */
            is_here: boolean;
            /**
             * Format: int64
             * @description When it has joined, in milliseconds since 1970.
             */
            joined_ms: number;
            /** @description The public key of its agent. */
            key: string;
            may: components["schemas"]["Permits"];
            name: string;
            /** @description The tags that the agent's configuration sets, which the manager cannot remove. */
            own_tags: {
                [key: string]: string;
            };
            rates: null | components["schemas"]["Rates"];
            /**
             * Format: int64
             * @description When the agent was heard last, in milliseconds since 1970.
             */
            seen_ms: number;
            /** @description All tags: those of the agent's configuration, and those of the manager, which count more. */
            tags: {
                [key: string]: string;
            };
        };
        /**
         * @description The state of a host in a rollout.
         * @enum {string}
         */
        HostState: "waiting" | "away" | "pinned" | "working" | "done" | "failed" | "back";
        /** @description An interface of a host. */
        Interface: {
            /** @default [] */
            addresses: string[];
            /** @default  */
            name: string;
        };
        /** @description A link that logs a browser in, once. */
        LoginLink: {
            /** @description The path and its variable. The console's address comes before it. */
            path: string;
        };
        /** @description A token that was made. */
        MadeToken: {
            name: string;
            role: components["schemas"]["Role"];
            /** @description The secret. The manager cannot say it again. */
            token: string;
        };
        /** @description A check that is wanted. */
        NewCheck: {
            /** @description The group of the beacons. `None`: a random one of the family that all hosts have. */
            group?: string | null;
            kind: components["schemas"]["CheckKind"];
            /**
             * Format: int32
             * @description How long beacons run.
             */
            seconds?: number;
            select: string;
        };
        /** @description A code that is wanted. */
        NewCode: {
            /** @description How long it lasts, such as `1h`. */
            lasts?: string;
            /**
             * Format: int32
             * @description How many hosts may join with it.
             */
            uses?: number;
        };
        /** @description A delivery that is wanted. */
        NewDelivery: {
            /** @description A folder below the one that each host names. Empty: that one. */
            into?: string;
            /** @description Files of the manager's host. */
            paths?: string[];
            select: string;
            /** @description An upload, by its name. */
            upload?: string | null;
        };
        /** @description A selection that is to be saved. */
        NewGroup: {
            selection: string;
        };
        /** @description A rollout whose cost is asked for. */
        NewPlan: components["schemas"]["NewRollout"] & {
            /**
             * Format: double
             * @description The share of packets that each host loses, from 0 to 1. `None`: 0.1 % is assumed.
             */
            loss?: number | null;
            /**
             * Format: int64
             * @description The rate of the manager's link, in bits per second. `None`: 100 Mbit/s are assumed.
             */
            rate_bps?: number | null;
        };
        /** @description A release whose files are in a folder of the manager's host. */
        NewRelease: {
            /** @description The folder at the manager's host that has the files. */
            folder: string;
            signed: components["schemas"]["SignedRelease"];
        };
        /** @description A rollout that is wanted. */
        NewRollout: {
            /** @description Whether a second person has to approve before it begins. */
            approval?: boolean;
            /**
             * Format: int32
             * @description How many hosts may fail before the rollout stops by itself.
             */
            errors?: number;
            /**
             * Format: int64
             * @description The number of the release.
             */
            release: number;
            /** @description The rings, in order. */
            rings: components["schemas"]["Ring"][];
        };
        /** @description A run that is wanted. */
        NewRun: {
            /**
             * Format: int64
             * @description When to begin, in milliseconds since 1970. `None`: as soon as nothing else runs.
             */
            at_ms?: number | null;
            /** @description The folder at the manager where paths in the file begin. */
            base?: string;
            /** @description The text of the experiment's file. */
            file: string;
            /** @description The name of the results. */
            name: string;
            repeat?: null | components["schemas"]["Repeat"];
            /** @description The hosts that take part. */
            select: string;
            /** @description Settings that take the place of those in the file, each `KEY=VALUE`. */
            settings?: string[];
        };
        /** @description A token that is wanted. */
        NewToken: {
            role: components["schemas"]["Role"];
        };
        /** @description What one host hears of another. */
        Pair: {
            /**
             * Format: double
             * @description The time from sending to arrival in milliseconds, corrected by the clocks of both, and the largest error of that.
             */
            delay_ms: number | null;
            /**
             * Format: int64
             * @description The number of packets that came a second time.
             */
            duplicates: number;
            from: string;
            /**
             * Format: int64
             * @description The number of routers on the way.
             */
            hops: number | null;
            /**
             * Format: double
             * @description The share of packets that were lost, from 0 to 1.
             */
            loss: number | null;
            state: components["schemas"]["PairState"];
            to: string;
            /** Format: double */
            uncertainty_ms: number | null;
        };
        /**
         * @description How well one host hears another.
         * @enum {string}
         */
        PairState: "well" | "lossy" | "silent" | "unknown";
        /** @description The kinds of work that an agent's host permits. */
        Permits: {
            /**
             * @description Send and receive generated bytes in the agent's own folder, and sample counters.
             * @default true
             */
            measure: boolean;
            /**
             * @description Receive files into the agent's folder.
             * @default true
             */
            receive: boolean;
            /**
             * @description Activate releases.
             * @default true
             */
            roll_out: boolean;
            /**
             * @description Run any command of the host.
             * @default false
             */
            run_commands: boolean;
        };
        /** @description The cost of a rollout. */
        PlanView: {
            /** Format: double */
            loss: number;
            name: string;
            /** Format: int64 */
            rate_bps: number;
            rings: components["schemas"]["RingPlan"][];
            version: string;
        };
        /** @description A preview of an experiment, made without doing it. */
        Preview: {
            /** Format: double */
            estimate_seconds: number;
            /** @description A line for each kind of run that is left out. */
            left_out: string[];
            /** @description The name of each run, in order. */
            runs: string[];
        };
        /** @description A question to many hosts. */
        Question: {
            /** @description The program and its arguments. Empty: the hosts' facts. */
            command?: string[];
            /** @description The longest time that the program may run, such as `1m`. */
            limit?: string;
            /** @description The hosts. */
            select: string;
        };
        /** @description What an interface carries now, in bits a second. */
        Rates: {
            /** Format: double */
            receives_bps: number;
            /** Format: double */
            sends_bps: number;
        };
        /**
         * @description The state of a host in a delivery.
         * @enum {string}
         */
        ReceiverState: "working" | "done" | "failed" | "away" | "refused" | "aborted";
        /** @description A run that the program refused, in its own words. */
        Refusal: {
            reason: string;
            run: string;
        };
        /** @description A release of the manager. */
        Release: {
            files: number;
            /** Format: int64 */
            id: number;
            is_withdrawn: boolean;
            key: string;
            name: string;
            /** Format: int64 */
            size_bytes: number;
            version: string;
        };
        /** @description How a run is repeated. */
        Repeat: {
            /** @description The time between two beginnings, such as `1h`. */
            every: string;
            /**
             * Format: int32
             * @description The number of runs in all.
             */
            times: number;
        };
        /** @description The results of an experiment. */
        Results: {
            /**
             * @description The clients that did not get it: run, node and reason.
             * @default []
             */
            failures: components["schemas"]["Failure"][];
            /** @default [] */
            findings: components["schemas"]["Finding"][];
            /** @default false */
            interrupted: boolean;
            /**
             * @description The runs that the program itself refused to make.
             * @default []
             */
            refused: components["schemas"]["Refusal"][];
            /** @default 0 */
            runs: number;
            /**
             * @description The results of searches.
             * @default []
             */
            thresholds?: components["schemas"]["Bound"][];
            /**
             * @description The number of runs in which every client got what it was to get.
             * @default 0
             */
            whole_runs: number;
        };
        /** @description A ring: hosts that get a release together. */
        Ring: {
            /**
             * Format: int32
             * @description The most hosts, in the order of their names. `None`: all that are selected and were in no ring before.
             */
            most?: number | null;
            select: string;
        };
        /** @description The cost of a ring, and who is in it. */
        RingPlan: {
            /** @description The hosts that are away, have the version already, or are pinned. The session is without them. */
            away: number;
            /** Format: int64 */
            delta_bytes?: number | null;
            done: number;
            forecasts: components["schemas"]["Forecast"][];
            hosts: number;
            pinned: number;
            /** Format: int32 */
            ring: number;
            /** @description `whole` or `delta`, and the bytes that each way sends, before losses. */
            way: string;
            /** Format: int64 */
            whole_bytes: number;
        };
        /** @description What the session of a ring has sent. */
        RingSent: {
            /** Format: int64 */
            delta_bytes?: number | null;
            hosts: number;
            /** Format: int32 */
            ring: number;
            /**
             * Format: int64
             * @description What has left the sender by its own count: IP packets of all fanouts, and retransmissions.
             */
            sent_bytes: number;
            /** Format: int64 */
            unicast_bytes: number;
            /** @description `whole`, or `delta` where only what differs from the hosts' versions was sent. */
            way: string;
            /**
             * Format: int64
             * @description What a session sends of the release by each way, before losses. `delta_bytes` is `None` where a host had no earlier version.
             */
            whole_bytes: number;
        };
        /**
         * @description What somebody may do. Each role may do what those before it may.
         * @enum {string}
         */
        Role: "viewer" | "operator" | "release-manager" | "administrator";
        /** @description A rollout, as its users see it. */
        Rollout: {
            /** Format: int32 */
            errors: number;
            hosts: components["schemas"]["RolloutHost"][];
            /** Format: int64 */
            id: number;
            name: string;
            reason: string | null;
            /** Format: int64 */
            release: number;
            rings: components["schemas"]["Ring"][];
            /** @description What each ring's session has sent, beside what one connection a host would have. */
            sent: components["schemas"]["RingSent"][];
            state: components["schemas"]["RolloutState"];
            version: string;
            who: string;
        };
        /**
         * @description What becomes of a rollout.
         * @enum {string}
         */
        RolloutChange: "approve" | "pause" | "go" | "abort" | "retry" | "back";
        /** @description A host in a rollout. */
        RolloutHost: {
            host: string;
            reason: string | null;
            /** Format: int32 */
            ring: number;
            state: components["schemas"]["HostState"];
            /**
             * Format: int64
             * @description When the host's own window opens, in milliseconds since 1970. `None` if it waits for no window.
             */
            until_ms?: number | null;
        };
        /**
         * @description The state of a rollout.
         * @enum {string}
         */
        RolloutState: "approval" | "running" | "paused" | "stopped" | "done" | "aborted";
        /** @description A run, as its users see it. */
        Run: {
            base?: string;
            /** Format: int64 */
            begun_ms: number | null;
            /**
             * Format: int64
             * @description When it begins at the earliest.
             */
            due_ms: number;
            /** Format: int64 */
            ended_ms: number | null;
            /** @description The events that it has told so far, as `treecast lab run --json` prints them. Empty in lists. */
            events?: components["schemas"]["RunEvent"][];
            /** @description The text of the experiment's file, and the folder where its paths begin. Empty in lists. */
            file?: string;
            /** Format: int64 */
            id: number;
            name: string;
            /** Format: int64 */
            ordered_ms: number;
            /** @description Why it is in this state, or how it went. */
            reason: string | null;
            results?: null | components["schemas"]["Results"];
            select: string;
            settings: string[];
            state: components["schemas"]["RunState"];
            /** @description Who has ordered it. */
            who: string;
        };
        /** @description Something that has happened in an experiment. */
        RunEvent: {
            /** Format: double */
            estimate_seconds: number;
            /** @enum {string} */
            event: "planned";
            left_out: string[];
            runs: number;
        } | {
            /** @enum {string} */
            event: "building";
            network: string;
            nodes: number;
        } | {
            /** @enum {string} */
            event: "settling";
            run: string;
        } | {
            clients: number;
            /** @enum {string} */
            event: "started";
            /**
             * Format: double
             * @description About how long it takes, its part of the plan's estimate.
             */
            expected_seconds: number;
            number: number;
            of: number;
            run: string;
        } | (components["schemas"]["Fared"] & {
            node: string;
            run: string;
        } & {
            /** @enum {string} */
            event: "client";
        }) | {
            /** @enum {string} */
            event: "again";
            reason: string;
            run: string;
        } | (components["schemas"]["Finished"] & {
            /** @enum {string} */
            event: "finished";
        });
        /**
         * @description The state of a run.
         * @enum {string}
         */
        RunState: "waiting" | "running" | "done" | "aborted" | "failed";
        /** @description A release with the signature of who has made it. */
        SignedRelease: {
            /** @description The public key of who has signed it. */
            key: string;
            /** @description The release, as it was signed. */
            release: string;
            /** @description The signature in hexadecimal digits. */
            signature: string;
        };
        /** @description Tags, by name. One with an empty value is removed. */
        Tags: {
            [key: string]: string;
        };
        /** @description How long hosts took to answer a question, without the answers. */
        Times: {
            /** @description The time of each host that has answered, in milliseconds. */
            answered_ms: number[];
            /** @description The number of hosts that have not answered. */
            open: number;
        };
        /** @description A token to log in with. */
        Token: {
            token: string;
        };
        /** @description A file that was uploaded. */
        Uploaded: {
            /** Format: int64 */
            size_bytes: number;
        };
        /**
         * @description Whether a claim holds in a cell.
         * @enum {string}
         */
        Verdict: "holds" | "fails" | "not_judged";
        /** @description Which hosts are meant. */
        Which: {
            /** @description A selection, such as `site=kiel and not role=router`. */
            select?: string;
        };
    };
    responses: {
        /** @description What was asked is wrong */
        Bad: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The manager could not do it */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description There is nothing of this name or number */
        Missing: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The role does not suffice, or a page of another site may have sent this */
        Refused: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Nobody is known by what was brought: log in first */
        Unknown: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    ask_hosts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Question"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Asked"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    show_answers: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Answer"][];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    show_times_of_answers: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Times"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    show_the_log: {
        parameters: {
            query?: {
                latest?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditEntry"][];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    follow_changes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Each event has one change */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["Change"];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    list_checks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Check"][];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    check_hosts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCheck"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Check"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    show_a_check: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Check"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    make_a_code: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewCode"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Code"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    count_hosts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Count"];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    list_deliveries: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Delivery"][];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    deliver_files: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDelivery"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Delivery"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    show_a_delivery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Delivery"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    abort_a_delivery: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Delivery"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    list_groups: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Group"][];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    save_a_group: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewGroup"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Group"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    remove_a_group: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    list_hosts: {
        parameters: {
            query?: {
                select?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"][];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    show_a_host: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    forget_a_host: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    tag_a_host: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Tags"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Host"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    make_a_link: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoginLink"];
                };
            };
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    log_in_by_a_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Token"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Caller"];
                };
            };
            400: components["responses"]["Bad"];
            500: components["responses"]["Failed"];
        };
    };
    log_out: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    say_who_asks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Caller"];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    describe_the_API: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string;
                };
            };
            500: components["responses"]["Failed"];
        };
    };
    list_releases: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Release"][];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    add_a_release: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRelease"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Added"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    withdraw_a_release: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    verify_a_release: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Which"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Asked"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    list_rollouts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rollout"][];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    roll_out: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRollout"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rollout"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    plan_a_rollout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewPlan"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlanView"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    show_a_rollout: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rollout"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    change_a_rollout: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
                change: components["schemas"]["RolloutChange"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rollout"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    list_runs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"][];
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
    run_an_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRun"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    plan_an_experiment: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRun"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Preview"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    show_a_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    abort_a_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    get_the_results_of_a_run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The results database of the run */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.sqlite3": string;
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    make_a_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewToken"];
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MadeToken"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    end_a_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    begin_an_upload: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Begun"];
                };
            };
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            500: components["responses"]["Failed"];
        };
    };
    delete_an_upload: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                upload: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    upload_a_file: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                upload: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": unknown;
            };
        };
        responses: {
            /** @description Done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Uploaded"];
                };
            };
            400: components["responses"]["Bad"];
            401: components["responses"]["Unknown"];
            403: components["responses"]["Refused"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    log_in_by_a_link: {
        parameters: {
            query: {
                once: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Logged in: the console is at / */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            500: components["responses"]["Failed"];
        };
    };
    end_a_login_by_the_identity_provider: {
        parameters: {
            query?: {
                code?: string;
                error?: string;
                state?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Logged in: the console is at / */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["Bad"];
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    begin_a_login_by_the_identity_provider: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page of the identity provider */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            404: components["responses"]["Missing"];
            500: components["responses"]["Failed"];
        };
    };
    read_figures: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The figures, as Prometheus reads them */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain; version=0.0.4": string;
                };
            };
            401: components["responses"]["Unknown"];
            500: components["responses"]["Failed"];
        };
    };
}
