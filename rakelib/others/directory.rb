# frozen_string_literal: true

require_relative "../../test/support/databases"

module Others
  # OpenLDAP's server as the tests of net-ldap know it: the entries, the administrator, and an
  # overlay that answers each name with its result code.
  module Directory
    ROOT = "dc=example,dc=org"
    ADMINISTRATOR = "cn=admin,#{ROOT}".freeze
    ENTRY = <<~LDIF.freeze
      dn: #{ROOT}
      objectClass: dcObject
      objectClass: organization
      o: example
      dc: example

    LDIF

    module_function

    # @param source [String] the folder of net-ldap's own files
    # @return [Hash] for the process that runs the tests
    def environment(source)
      # It asks an address outside of this machine.
      file = "#{source}/test/integration/test_bind.rb"
      File.write(file, File.read(file).sub("def test_bind_timeout", "def bind_timeout"))
      place = fetch("#{source}/test/fixtures/ldif")
      { "INTEGRATION" => "openldap", "INTEGRATION_HOST" => "127.0.0.1",
        "INTEGRATION_PORT" => place.port.to_s }
    end

    def fetch(fixtures)
      Servers.fetch("slapd") do |port, folder|
        Dir.mkdir("#{folder}/data")
        File.write("#{folder}/slapd.conf", settings(folder, codes(fixtures)))
        File.write("#{folder}/seed.ldif", ENTRY + File.read("#{fixtures}/50-seed.ldif"))
        system("/usr/sbin/slapadd", "-f", "#{folder}/slapd.conf", "-l", "#{folder}/seed.ldif",
               exception: true)
        ["/usr/sbin/slapd", "-f", "#{folder}/slapd.conf", "-h", "ldap://127.0.0.1:#{port}",
         "-d", "0"]
      end
    end

    # The fixture is for a server that is configured by LDAP itself.
    def codes(fixtures)
      File.readlines("#{fixtures}/06-retcode.ldif").grep(/^olcRetcode/)
          .map { |line| line.sub(/^olcRetcode(\w+): /) { "retcode-#{$1.downcase} " } }.join
    end

    def settings(folder, codes)
      <<~TEXT
        include /etc/ldap/schema/core.schema
        include /etc/ldap/schema/cosine.schema
        include /etc/ldap/schema/inetorgperson.schema
        include /etc/ldap/schema/nis.schema
        modulepath /usr/lib/ldap
        moduleload back_mdb
        moduleload retcode
        database mdb
        suffix #{ROOT}
        rootdn #{ADMINISTRATOR}
        rootpw admin
        directory #{folder}/data
        overlay retcode
        #{codes}
      TEXT
    end
  end
end
